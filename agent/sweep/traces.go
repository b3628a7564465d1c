package sweep

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
)

// marked finds the living processes of the run's owner, or of ours, whose
// environment names the run's worker socket: what workers have started carries it
// along. Any user can name another's run. A nil owner is unknown: then all count.
func (c *census) marked(dir string, owner *uint32) []proc.Stat {
	var found []proc.Stat
	for _, p := range c.procs {
		if slices.Contains(c.shows[p.PID].names, dir) && mayRunAs(p.PID, owner) {
			found = append(found, p)
		}
	}
	return found
}

// mayRunAs reports whether a process is the owner's or ours. Without CAP_SYS_PTRACE
// only our own user's processes, also those in a user namespace of its own, show
// their environment.
func mayRunAs(pid int, owner *uint32) bool {
	return owner == nil || !proc.May(unix.CAP_SYS_PTRACE) || runsAs(pid, *owner)
}

// runsAs reports whether a process is the owner's or ours, by its real user: a
// setuid program that another user has started is still that user's.
func runsAs(pid int, owner uint32) bool {
	seen, ok := proc.Inspect(pid)
	return ok && (seen.UID == owner || int(seen.UID) == os.Geteuid())
}

// hosting finds the living processes that host the run by their command lines.
// Only root's and our own count: a command line can be feigned.
func (c *census) hosting(dir string) []proc.Stat {
	var found []proc.Stat
	for _, p := range c.procs {
		if c.shows[p.PID].hosts == dir && oursOrRoots(p.PID) {
			found = append(found, p)
		}
	}
	return found
}

func oursOrRoots(pid int) bool {
	seen, ok := proc.Inspect(pid)
	return ok && (seen.UID == 0 || int(seen.UID) == os.Geteuid())
}

// runsBelow lists the run directories directly below root that living processes
// name, as workers in their environment or as shims on their command lines:
// whether they are still there or not.
func (c *census) runsBelow(root string) []string {
	dirs := map[string]bool{}
	for pid, s := range c.shows {
		for _, dir := range s.names {
			dirs[dir] = dirs[dir] || filepath.Dir(dir) == root
		}
		if s.hosts != "" && filepath.Dir(s.hosts) == root && oursOrRoots(pid) {
			dirs[s.hosts] = true
		}
	}
	maps.DeleteFunc(dirs, func(_ string, below bool) bool { return !below })
	return slices.Sorted(maps.Keys(dirs))
}

// unanswered names a process that could not be read; nil = there is none. One that
// may not be read is another user's than this one can run workers as.
func (c *census) unanswered() error {
	for _, p := range c.procs {
		if err := c.shows[p.PID].err; err != nil && !errors.Is(err, os.ErrPermission) {
			return errHidden(p, err)
		}
	}
	return nil
}

// addGroups adds the cgroups that bear the run's name, which its directory alone tells.
func (s *sweeper) addGroups(l *listing) {
	name := rundir.Name(s.dir)
	for _, g := range l.groups {
		switch {
		case g.run != name:
		case strings.HasSuffix(g.path, rundir.ScopeSuffix):
			s.scopes = added(s.scopes, g.path)
		case g.kind != "":
			s.groups = added(s.groups, contain.Open(g.kind, g.path))
		default:
			s.limits = added(s.limits, g.path)
		}
	}
}

// madeByUs reports whether a cgroup is root's or our own user's.
func madeByUs(path string) bool {
	var at unix.Stat_t
	err := unix.Lstat(path, &at)
	return err == nil && (at.Uid == 0 || int(at.Uid) == os.Geteuid())
}

func added[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// onCgroupfs makes sure that a group that is not there is one that was removed,
// and not one that this process cannot see.
func onCgroupfs(path string) error {
	for ; ; path = filepath.Dir(path) {
		var fs unix.Statfs_t
		err := unix.Statfs(path, &fs)
		if errors.Is(err, unix.ENOENT) && path != "/" {
			continue
		}
		if err == nil && fs.Type != unix.CGROUP_SUPER_MAGIC && fs.Type != unix.CGROUP2_SUPER_MAGIC {
			err = errors.New("no cgroups are mounted there: mount them again, as they were when the run was started")
		}
		if err != nil {
			return fmt.Errorf("look for the run's cgroup at %s: %w", path, err)
		}
		return nil
	}
}

// hidden complains of processes that may be the run's and do not show it: what
// cannot be known is not taken for gone. One is none of the run's that is another
// user's than its workers are, older than the run, an ancestor of ours, or descends
// from another shim. known are the run's for other reasons. It goes by the last census.
func (s *sweeper) hidden(known []proc.Stat) error {
	if err := hiddenProcesses(); err != nil {
		return err
	}
	since := uint64(0)
	if s.shim.BootID == proc.BootID() {
		since = s.shim.StartTime
	}
	var others map[int]bool
	for _, p := range s.seen.procs {
		why := s.seen.shows[p.PID].err
		if why == nil || p.Start < since || slices.ContainsFunc(known, p.Same) {
			continue
		}
		if others == nil {
			others = s.othersProcesses()
		}
		if !others[p.PID] && s.mayBeWorkers(p.PID) {
			return errHidden(p, why)
		}
	}
	return nil
}

// nothingHidden reports whether no process of the run can live unseen, by the last census.
func (s *sweeper) nothingHidden() bool { return s.contained || s.hidden(nil) == nil }

// othersProcesses are this process and its ancestors, and other shims with what descends from them.
func (s *sweeper) othersProcesses() map[int]bool {
	c := s.seen
	parents := make(map[int]int, len(c.procs))
	shims := map[int]bool{}
	for _, p := range c.procs {
		parents[p.PID] = p.PPID
		if dir := c.shows[p.PID].hosts; dir != "" && dir != s.dir && oursOrRoots(p.PID) {
			shims[p.PID] = true
		}
	}
	others := map[int]bool{1: true}
	for pid := os.Getpid(); pid > 1 && !others[pid]; pid = parents[pid] {
		others[pid] = true
	}
	for _, p := range c.family.Descendants(shims) {
		others[p.PID] = true
	}
	maps.Copy(others, shims)
	return others
}

// mayBeWorkers reports whether a living process is one of a user whose workers an
// agent of ours could have started: the run's owner, where that is known.
func (s *sweeper) mayBeWorkers(pid int) bool {
	seen, ok := proc.Inspect(pid)
	switch {
	case !ok:
		return false
	case int(seen.UID) == os.Geteuid():
		return true
	case s.owner != nil:
		return seen.UID == *s.owner
	}
	return os.Geteuid() == 0
}

// hiddenProcesses is an error where /proc keeps processes of other users from root.
func hiddenProcesses() error {
	if os.Geteuid() != 0 || proc.May(unix.CAP_SYS_PTRACE) {
		return nil // an ordinary user's workers are that user's own
	}
	mounts, err := proc.Mounts()
	if err != nil {
		return fmt.Errorf("find how /proc is mounted: %w", err)
	}
	for _, m := range mounts {
		if m.Dir != "/proc" || m.Type != "proc" {
			continue
		}
		for _, option := range m.Options {
			if value, ok := strings.CutPrefix(option, "hidepid="); ok && value != "0" && value != "off" {
				return errors.New("/proc hides processes from this agent (" + option + "): give it CAP_SYS_PTRACE, or mount /proc without that option")
			}
		}
	}
	return nil
}

// Lost lists the paths directly below the roots that living processes name as theirs
// and where no run's files lie. An error names a process that does not show what it
// names: what is found without it is not all that there may be. What lies at such
// a path must not be removed: a process can name any. It takes a few seconds at most,
// whatever processes do.
func Lost(roots ...string) ([]string, error) {
	c, err := observed.census()
	if err != nil {
		return nil, fmt.Errorf("look for runs without a directory: %w", err)
	}
	err = c.unanswered()
	var dirs []string
	for _, root := range roots {
		place, errRoot := filepath.Abs(root)
		if err = errors.Join(err, errRoot); errRoot == nil {
			dirs = append(dirs, c.runsBelow(place)...)
		}
	}
	if err != nil {
		err = fmt.Errorf("look for runs without a directory: %w", err)
	}
	return slices.DeleteFunc(dirs, rundir.IsRun), err
}

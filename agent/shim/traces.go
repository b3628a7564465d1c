package shim

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// marked finds the living processes of the run's owner, or of ours, whose
// environment names the run's worker socket: what workers have started carries it
// along. Any user can name another's run. A nil owner is unknown: then all count.
func (c *census) marked(dir string, owner *uint32) []stat {
	var found []stat
	for _, p := range c.procs {
		if slices.Contains(c.shows[p.pid].names, dir) && mayRunAs(p.pid, owner) {
			found = append(found, p)
		}
	}
	return found
}

// mayRunAs reports whether a process is the owner's or ours. Without CAP_SYS_PTRACE
// only our own user's processes, also those in a user namespace of its own, show
// their environment.
func mayRunAs(pid int, owner *uint32) bool { return owner == nil || !sees() || runsAs(pid, *owner) }

// runsAs reports whether a process is the owner's or ours, by its real user: a
// setuid program that another user has started is still that user's.
func runsAs(pid int, owner uint32) bool {
	seen, ok := Inspect(pid)
	return ok && (seen.UID == owner || int(seen.UID) == os.Geteuid())
}

// ownerOf is whom a run's workers run as, by what its directory tells; nil if it
// tells nothing. Records of earlier versions name none: their sockets are the owner's.
func ownerOf(dir string, rec runRecord) *uint32 {
	if rec.Owner != nil {
		return rec.Owner
	}
	if order, err := readOrder(dir); err == nil {
		return &order.Owner.UID
	}
	var at unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, workerSocket), &at); err == nil {
		return &at.Uid
	}
	return nil
}

// hosting finds the living processes that host the run by their command lines.
// Only root's and our own count: a command line can be feigned.
func (c *census) hosting(dir string) []stat {
	var found []stat
	for _, p := range c.procs {
		if c.shows[p.pid].hosts == dir && oursOrRoots(p.pid) {
			found = append(found, p)
		}
	}
	return found
}

func oursOrRoots(pid int) bool {
	seen, ok := Inspect(pid)
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
		if err := c.shows[p.pid].err; err != nil && !errors.Is(err, os.ErrPermission) {
			return errHidden(p, err)
		}
	}
	return nil
}

// addGroups adds the cgroups that bear the run's name, which its directory alone tells.
func (s *sweeper) addGroups(l *listing) {
	name := nameOf(s.dir)
	for _, g := range l.groups {
		switch {
		case g.run != name:
		case strings.HasSuffix(g.path, scopeSuffix):
			s.scopes = added(s.scopes, g.path)
		case g.mount.v2:
			s.groups = added(s.groups, group(cgroup(g.path)))
		case g.mount.freezer:
			s.groups = added(s.groups, group(freezer(g.path)))
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

// cgroupMount is a tree of cgroups.
type cgroupMount struct {
	dir         string
	v2, freezer bool
}

func cgroupMounts() ([]cgroupMount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroup mounts: %w", err)
	}
	defer f.Close()
	var mounts []cgroupMount
	seen := map[string]bool{} // a file system that is mounted twice shows the same groups
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(source) < 3 || source[0] != "cgroup" && source[0] != "cgroup2" {
			continue
		}
		if key := fields[2] + fields[3]; !seen[key] {
			seen[key] = true
			mounts = append(mounts, cgroupMount{
				dir: unescape(fields[4]), v2: source[0] == "cgroup2", freezer: slices.Contains(strings.Split(source[2], ","), "freezer"),
			})
		}
	}
	return mounts, lines.Err()
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
func (s *sweeper) hidden(known []stat) error {
	if err := hiddenProcesses(); err != nil {
		return err
	}
	since := uint64(0)
	if s.shim.BootID == bootID() {
		since = s.shim.StartTime
	}
	var others map[int]bool
	for _, p := range s.seen.procs {
		why := s.seen.shows[p.pid].err
		if why == nil || p.start < since || slices.ContainsFunc(known, p.same) {
			continue
		}
		if others == nil {
			others = s.othersProcesses()
		}
		if !others[p.pid] && s.mayBeWorkers(p.pid) {
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
		parents[p.pid] = p.ppid
		if dir := c.shows[p.pid].hosts; dir != "" && dir != s.dir && oursOrRoots(p.pid) {
			shims[p.pid] = true
		}
	}
	others := map[int]bool{1: true}
	for pid := os.Getpid(); pid > 1 && !others[pid]; pid = parents[pid] {
		others[pid] = true
	}
	for _, p := range c.family.descendants(shims) {
		others[p.pid] = true
	}
	maps.Copy(others, shims)
	return others
}

// mayBeWorkers reports whether a living process is one of a user whose workers an
// agent of ours could have started: the run's owner, where that is known.
func (s *sweeper) mayBeWorkers(pid int) bool {
	seen, ok := Inspect(pid)
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
	if os.Geteuid() != 0 || sees() {
		return nil // an ordinary user's workers are that user's own
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("find how /proc is mounted: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		before, after, _ := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(source) < 3 || fields[4] != "/proc" || source[0] != "proc" {
			continue
		}
		for option := range strings.SplitSeq(source[2], ",") {
			if value, ok := strings.CutPrefix(option, "hidepid="); ok && value != "0" && value != "off" {
				return errors.New("/proc hides processes from this agent (" + option + "): give it CAP_SYS_PTRACE, or mount /proc without that option")
			}
		}
	}
	return nil
}

// sees reports whether this process has CAP_SYS_PTRACE, to which /proc shows everything.
func sees() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}

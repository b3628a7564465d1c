package shim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// marked finds the living processes of the run's owner, or of ours, whose
// environment names the run's worker socket: what workers have started carries it
// along. Any user can name another's run. A nil owner is unknown: then all count.
func marked(dir string, owner *uint32) ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	mark := []byte("\x00" + socketVariable + "=" + filepath.Join(dir, workerSocket) + "\x00")
	// Without CAP_SYS_PTRACE only our own user's processes, also those in a user
	// namespace of its own, show their environment.
	anyUser := owner == nil || !sees()
	var found []stat
	for _, p := range all {
		if p.pid == os.Getpid() || !p.lives() {
			continue
		}
		env, err := os.ReadFile(procFile(p.pid, "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, env...), mark) && (anyUser || runsAs(p.pid, *owner)) {
			found = append(found, p)
		}
	}
	return found, nil
}

// runsAs reports whether a process is the owner's or ours, by its real user: a
// setuid program that another user has started is still that user's.
func runsAs(pid int, owner uint32) bool {
	seen, ok := LookAt(pid)
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

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// hosting finds the living processes that host the run by their command lines.
// Only root's and our own count: a command line can be feigned.
func hosting(dir string, all []stat) []stat {
	var found []stat
	for _, p := range all {
		if p.pid != os.Getpid() && p.lives() && hostedBy(p.pid) == dir && oursOrRoots(p.pid) {
			found = append(found, p)
		}
	}
	return found
}

// hostedBy is the directory of the run that a process hosts; empty if it is no shim.
// Its path is as Start writes it: one that is written otherwise could name another
// run's directory, or one that is no run's.
func hostedBy(pid int) string {
	b, err := os.ReadFile(procFile(pid, "cmdline"))
	if err != nil {
		return ""
	}
	argv := strings.Split(string(b), "\x00")
	if len(argv) < 4 || argv[1] != "shim" || argv[2] != "--dir" || !filepath.IsAbs(argv[3]) || argv[3] != filepath.Clean(argv[3]) {
		return ""
	}
	return argv[3]
}

func oursOrRoots(pid int) bool {
	seen, ok := LookAt(pid)
	return ok && (seen.UID == 0 || int(seen.UID) == os.Geteuid())
}

// hostsBelow lists the run directories directly below root that living processes
// name, as workers in their environment or as shims on their command lines:
// whether they are still there or not.
func hostsBelow(root string) ([]string, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var dirs []string
	add := func(dir string) {
		if filepath.Dir(dir) == root && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, p := range all {
		if p.pid == os.Getpid() || !p.lives() {
			continue
		}
		if dir := hostedBy(p.pid); dir != "" && oursOrRoots(p.pid) {
			add(dir)
		}
		env, err := os.ReadFile(procFile(p.pid, "environ"))
		if err != nil {
			continue
		}
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if socket, ours := bytes.CutPrefix(entry, []byte(socketVariable+"=")); ours && filepath.Base(string(socket)) == workerSocket {
				add(filepath.Dir(string(socket)))
			}
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}

// findGroups looks through all cgroups that this process sees for those that bear
// the run's name, which its directory alone tells, and adds what is new. Users who
// have cgroups to themselves can make one of any name: theirs do not count.
func (s *sweeper) findGroups() {
	mounts, err := cgroupMounts()
	if err != nil {
		return // left complains of a /proc that cannot be read
	}
	for _, m := range mounts {
		_ = filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil //nolint:nilerr // groups come and go
			}
			switch {
			case !namesRun(d.Name(), s.dir), !madeByUs(path):
			case strings.HasSuffix(path, scopeSuffix):
				s.scopes = added(s.scopes, path)
			case m.v2:
				s.groups = added(s.groups, group(cgroup(path)))
			case m.freezer:
				s.groups = added(s.groups, group(freezer(path)))
			default:
				s.limits = added(s.limits, path)
			}
			return nil
		})
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

// veiled complains of processes that may be the run's and do not show it: what
// cannot be known is not taken for gone. Who is of another user than we can run
// workers as, older than the run, an ancestor of ours, or descends from another
// shim, is none.
func (s *sweeper) veiled() error {
	if err := hiddenProcesses(); err != nil {
		return err
	}
	all, err := processes()
	if err != nil {
		return err
	}
	shims, others := map[int]bool{}, map[int]bool{1: true}
	for _, p := range all {
		if descends(os.Getpid(), p.pid) {
			others[p.pid] = true
			continue
		}
		if dir := hostedBy(p.pid); dir != "" && dir != s.dir && oursOrRoots(p.pid) {
			shims[p.pid], others[p.pid] = true, true
		}
	}
	for _, p := range descendants(all, shims) {
		others[p.pid] = true
	}
	since := uint64(0)
	if s.shim.BootID == bootID() {
		since = s.shim.StartTime
	}
	for _, p := range all {
		if p.pid == os.Getpid() || !p.lives() || others[p.pid] || p.start < since {
			continue
		}
		_, err := os.ReadFile(procFile(p.pid, "environ"))
		if errors.Is(err, os.ErrPermission) && mayBeWorkers(p.pid) {
			return fmt.Errorf("%s does not show whether it belongs to the run: end it, or run the agent as root with CAP_SYS_PTRACE", p)
		}
	}
	return nil
}

// mayBeWorkers reports whether a process is one of a user whose workers an agent
// of ours could have started.
func mayBeWorkers(pid int) bool {
	seen, ok := LookAt(pid)
	return ok && (os.Geteuid() == 0 || int(seen.UID) == os.Geteuid())
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

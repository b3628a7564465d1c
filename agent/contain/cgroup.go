package contain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroup is a cgroup v2 directory of our own. Its path is all its state, so that
// another process can use it after the shim's death.
type cgroup string

// newCgroup makes a child of our own cgroup. An error means: not on this machine, not for this user.
func newCgroup(name string) (cgroup, error) {
	parent, err := hierarchy{fstype: "cgroup2"}.own()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cgroup: %w", err)
	}
	g := cgroup(dir)
	if err := g.try(); err != nil {
		return "", errors.Join(err, g.Remove())
	}
	return g, nil
}

// try finds out now, and not when it matters, what may be missing: kernels before
// 5.14 cannot kill a cgroup at one stroke, a directory that was handed to us may
// forbid it, and system call filters forbid to start a process in a cgroup.
func (g cgroup) try() error {
	if err := unix.Access(filepath.Join(string(g), "cgroup.kill"), unix.W_OK); err != nil {
		return fmt.Errorf("cgroup %s has no usable cgroup.kill: %w", g, err)
	}
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}}
	release, err := g.enter(attr.Sys)
	if err != nil {
		return err
	}
	defer release()
	// The child is born in the cgroup and finds nothing to execute there: that error alone is good news.
	if _, err := syscall.ForkExec(filepath.Join(string(g), "no-such-program"), []string{"-"}, attr); !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("start a process in cgroup %s: %w", g, err)
	}
	return nil
}

// enter makes a process to be started one of the group from its first instruction on.
func (g cgroup) enter(attr *syscall.SysProcAttr) (release func(), err error) {
	fd, err := unix.Open(string(g), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open cgroup %s: %w", g, err)
	}
	attr.UseCgroupFD, attr.CgroupFD = true, fd
	return func() { _ = unix.Close(fd) }, nil
}

// Kill sends SIGKILL to all processes of the group and of groups below, forking or not.
func (g cgroup) Kill() error {
	err := os.WriteFile(filepath.Join(string(g), "cgroup.kill"), []byte("1"), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("kill cgroup %s: %w", g, err)
	}
	return nil
}

// Look names the processes in the group and below, and says whether there are
// any. A process that is about to be gone may count without having a name.
func (g cgroup) Look() (pids []int, populated bool, err error) {
	b, err := os.ReadFile(filepath.Join(string(g), "cgroup.events"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, false, nil
	} else if err != nil {
		return nil, true, fmt.Errorf("look into cgroup %s: %w", g, err)
	}
	return Members(string(g)), !strings.Contains(string(b), "populated 0"), nil
}

// Remove takes the empty group away.
func (g cgroup) Remove() error { return removeTree(string(g)) }

// Members names the processes in a cgroup and below, of either version.
func Members(dir string) []int {
	var pids []int
	EachGroup(dir, func(path string) {
		b, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return // groups below may come and go
		}
		for line := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(line); err == nil {
				pids = append(pids, pid)
			}
		}
	})
	slices.Sort(pids)
	return slices.Compact(pids)
}

// removeTree takes an empty cgroup away, with the empty ones that its processes have made below.
func removeTree(top string) error {
	dirs := below(top)
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// below lists a cgroup and those below it, the higher ones first.
func below(top string) []string {
	var dirs []string
	EachGroup(top, func(path string) { dirs = append(dirs, path) }) // later operations on them return the error
	return dirs
}

// EachGroup calls visit for a cgroup and those below it, the higher ones first. Groups that come or go
// meanwhile may be missed. Most groups have no other below, which their number of links tells without
// their dozens of files being listed: a machine may have thousands of them.
func EachGroup(top string, visit func(path string)) {
	var at unix.Stat_t
	if err := unix.Lstat(top, &at); err != nil || at.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	visit(top)
	if at.Nlink == 2 { // its name and its "."; a ".." of each group below would count
		return
	}
	d, err := os.Open(top)
	if err != nil {
		return
	}
	entries, _ := d.ReadDir(-1) // what could be read
	_ = d.Close()
	var below []string
	for _, e := range entries {
		if e.IsDir() {
			below = append(below, e.Name())
		}
	}
	slices.Sort(below)
	for _, name := range below {
		EachGroup(filepath.Join(top, name), visit)
	}
}

// RemoveAll takes cgroups away, each with the empty ones below.
func RemoveAll(dirs []string) error {
	var err error
	for _, dir := range dirs {
		err = errors.Join(err, removeTree(dir))
	}
	return err
}

package shim

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroup is a cgroup v2 directory of our own. Its path is all its state, so that
// whoever comes after the shim's death can go on with it.
type cgroup string

// newCgroup makes a child of our own cgroup. An error means: not on this machine, not for this user.
func newCgroup(name string) (cgroup, error) {
	parent, err := ownCgroup()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cgroup: %w", err)
	}
	g := cgroup(dir)
	// Kernels before 5.14 cannot kill a cgroup at one stroke, and a directory that
	// was handed to us may forbid it; both show now and not when it matters.
	if err := unix.Access(filepath.Join(dir, "cgroup.kill"), unix.W_OK); err != nil {
		return "", errors.Join(fmt.Errorf("cgroup %s has no usable cgroup.kill: %w", dir, err), g.remove())
	}
	return g, nil
}

// ownCgroup finds where this process is in the cgroup v2 hierarchy, which may be
// mounted anywhere, also beside v1 hierarchies.
func ownCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find own cgroup: %w", err)
	}
	own := ""
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			own = path
		}
	}
	if own == "" {
		return "", errors.New("find own cgroup: this kernel has no cgroup v2")
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup mount: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if dir, ok := mountedAt(lines.Text(), own); ok {
			return dir, nil
		}
	}
	return "", errors.Join(fmt.Errorf("find cgroup mount: no cgroup v2 is mounted that shows %s", own), lines.Err())
}

// mountedAt reads one line of mountinfo,
//
//	41 31 0:38 /root /mount/point rw,relatime - cgroup2 cgroup2 rw
//
// and says where the cgroup own lies if that mount shows it.
func mountedAt(line, own string) (string, bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields := strings.Fields(before)
	if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
		return "", false
	}
	root, mount := unescape(fields[3]), unescape(fields[4])
	rel, err := filepath.Rel(root, own)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return filepath.Join(mount, rel), true
}

// unescape undoes mountinfo's octal escapes of white space and backslashes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
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

// kill sends SIGKILL to all processes of the group and of groups below, forking or not.
func (g cgroup) kill() error {
	err := os.WriteFile(filepath.Join(string(g), "cgroup.kill"), []byte("1"), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("kill cgroup %s: %w", g, err)
	}
	return nil
}

// populated reports whether any process lives in the group or below.
func (g cgroup) populated() (bool, error) {
	b, err := os.ReadFile(filepath.Join(string(g), "cgroup.events"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return false, nil
	} else if err != nil {
		return true, fmt.Errorf("look into cgroup %s: %w", g, err)
	}
	return !strings.Contains(string(b), "populated 0"), nil
}

// pids names the processes in the group and below.
func (g cgroup) pids() []int {
	var pids []int
	_ = filepath.WalkDir(string(g), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // groups below may come and go
		}
		b, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		for line := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(line); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	slices.Sort(pids)
	return pids
}

// remove takes the empty group away, with the empty groups that its processes have made below.
func (g cgroup) remove() error {
	var dirs []string
	_ = filepath.WalkDir(string(g), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // the removal tells
	})
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
	return nil
}

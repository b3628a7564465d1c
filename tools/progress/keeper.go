package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

const (
	// keptVariable is set for the process that runs the tests: it has a keeper.
	keptVariable = "PROGRESS_KEPT"
	// scratchPrefix and the keeper's pid name the folder for temporary files. It is short:
	// tests have unix sockets in it, whose paths have 107 bytes at most.
	scratchPrefix = "bt"
	// endWithin is how long an interrupted run may take to say what came of it.
	endWithin = 10 * time.Second
	// killWithin bounds how long killed processes may take to end.
	killWithin = 20 * time.Second
)

// keep runs this program again, which runs the tests, and returns its exit status. What the
// tests have started ends with them, also when the run is interrupted or make is killed:
// processes, whatever session they are in; the cgroups of shims that could not remove them;
// temporary files.
//
// Tests kill agents and shims, and what those had started becomes a child of the nearest
// subreaper: of this process, which reaps it, so that no test takes a process that has
// ended for one that runs.
func keep(args []string) int {
	// The signal comes when the parent of this thread's process ends.
	runtime.LockOSThread()
	if err := errors.Join(
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0),
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
	); err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		return 1
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	scratch, err := newScratch(os.TempDir())
	if err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		return 1
	}
	before := cgroups()
	status, err := keepRunning(args, scratch, signals)
	err = errors.Join(err, endAll(killWithin))
	removeNew(before)
	if err = errors.Join(err, removeScratch(scratch)); err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		return max(status, 1)
	}
	return status
}

// keepRunning runs the tests to their end, and reaps what becomes a child of this process.
func keepRunning(args []string, scratch string, signals <-chan os.Signal) (status int, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), keptVariable+"=1", "TMPDIR="+scratch)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	child := cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		for sig := range signals {
			fmt.Fprintf(os.Stderr, "progress: %s: ends the tests\n", sig)
			_ = unix.Kill(-child, unix.SIGINT) // the go command and its tests are in the group; those of spare steps are sent the signal by the child
			select {
			case <-ended:
			case <-time.After(endWithin):
				_ = unix.Kill(-child, unix.SIGKILL)
			}
		}
	}()
	for {
		var how unix.WaitStatus
		pid, err := unix.Wait4(-1, &how, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for the tests: %w", err)
		case pid == child:
			close(ended)
			if how.Signaled() {
				return 128 + int(how.Signal()), nil
			}
			return how.ExitStatus(), nil
		}
	}
}

// endAll kills all children, and those that become children as their parents end, until
// there are none. A process that the kernel does not end within the bound is an error.
func endAll(within time.Duration) error {
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		children := childrenOf(os.Getpid())
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return nil
			}
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v do not end", children)
		}
	}
}

// childrenOf lists the processes with a parent.
func childrenOf(parent int) (pids []int) {
	all, _ := procfs.AllProcs()
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == parent { // an error: it has ended
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// newScratch makes the folder for temporary files, and removes those of keepers that were
// killed before they could.
func newScratch(below string) (string, error) {
	old, _ := filepath.Glob(filepath.Join(below, scratchPrefix+"[0-9]*"))
	for _, dir := range old {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), scratchPrefix))
		if err == nil && (pid == os.Getpid() || !lives(pid)) {
			_ = removeScratch(dir) // another user's stays
		}
	}
	dir := filepath.Join(below, scratchPrefix+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777|fs.ModeSticky) //nolint:gosec // tests act as several users, as in /tmp
}

// removeScratch removes the folder, with the file systems that tests have mounted in it.
func removeScratch(dir string) error {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = unix.Unmount(fields[1], unix.MNT_DETACH) // an error shows in the removal
		}
	}
	return os.RemoveAll(dir)
}

func lives(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// cgroups lists those of runs, of all hierarchies.
func cgroups() map[string]bool {
	found := map[string]bool{}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "bellows-") {
			found[path] = true
		}
		return nil // cgroups come and go
	})
	return found
}

// removeNew removes cgroups of runs that were not there before. One whose name has the pid
// of a living process stays: it belongs to another run of tests or to a real agent.
func removeNew(before map[string]bool) {
	for dir := range cgroups() {
		if before[dir] || namesLiving(filepath.Base(dir)) {
			continue
		}
		var below []string
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(below) {
			_ = unix.Rmdir(dir) // one with processes stays
		}
	}
}

// namesLiving reports whether a number in a cgroup's name is the pid of a living process.
func namesLiving(name string) bool {
	for part := range strings.SplitSeq(name, "-") {
		if pid, err := strconv.Atoi(part); err == nil && pid > 1 && lives(pid) {
			return true
		}
	}
	return false
}

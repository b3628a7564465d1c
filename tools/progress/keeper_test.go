package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keeperVariable has a process of this test binary be a keeper; what it keeps is a script.
const keeperVariable = "BELLOWS_TEST_KEEPER"

func TestMain(m *testing.M) {
	if os.Getenv(keeperVariable) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(keptVariable) == "" {
		os.Exit(keep(os.Args[1:]))
	}
	cmd := exec.Command("sh", "-c", os.Args[1])
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if cmd.Run() != nil {
		os.Exit(3)
	}
	os.Exit(0)
}

// A run that ends, fails, is interrupted or loses its parent leaves no process, no
// temporary file and no cgroup.
func TestNothingIsLeftOfARun(t *testing.T) {
	t.Parallel()
	// A shim is in a session of its own, and what it has started too.
	const leave = `echo x >$TMPDIR/file; mkdir $TMPDIR/m; mount -t tmpfs x $TMPDIR/m 2>&1; setsid sh -c 'echo $$; setsid sleep 1000 & echo $!; >$TMPDIR/told; wait' & until [ -e $TMPDIR/told ]; do sleep 0.01; done; `
	for _, c := range []struct {
		name, script string
		signal       syscall.Signal // to the keeper; 0 = none
		parent       bool           // its parent is killed instead
		status       int
	}{
		{name: "ends", script: leave + "exit 0"},
		{name: "fails", script: leave + "exit 1", status: 3},
		{name: "interrupted", script: leave + "echo up; sleep 1000", signal: syscall.SIGINT, status: 128 + int(syscall.SIGINT)},
		{name: "terminated", script: leave + "echo up; sleep 1000", signal: syscall.SIGTERM, status: 128 + int(syscall.SIGINT)},
		{name: "without parent", script: leave + "echo up; sleep 1000", parent: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			scratch := t.TempDir()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(exe, c.script)
			if c.parent {
				cmd = exec.Command("sh", "-c", `"$0" "$1"; true`, exe, c.script)
			}
			// These tests have a keeper themselves where they run under make.
			environ := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, keptVariable+"=") })
			cmd.Env = append(environ, keeperVariable+"=1", "TMPDIR="+scratch)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var pids []int
			for lines := bufio.NewScanner(out); lines.Scan(); { // to the end: what is left would hold the pipe
				if pid, err := strconv.Atoi(lines.Text()); err == nil {
					pids = append(pids, pid)
					continue
				}
				if c.parent {
					_ = cmd.Process.Kill()
				} else {
					_ = cmd.Process.Signal(c.signal)
				}
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.status && !c.parent {
				t.Errorf("exit status %d, want %d: %s", got, c.status, &errs)
			}
			if len(pids) != 2 {
				t.Fatalf("it started %v, want two processes: %s", pids, &errs)
			}
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				left, _ := filepath.Glob(filepath.Join(scratch, "*"))
				if !lives(pids[0]) && !lives(pids[1]) && len(left) == 0 {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("left: %v of processes %v (%t, %t)", left, pids, lives(pids[0]), lives(pids[1]))
				}
			}
		})
	}
}

// The folder of a keeper that was killed is removed by the next one; that of one that runs stays.
func TestOldScratchIsRemoved(t *testing.T) {
	t.Parallel()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	below := t.TempDir()
	for _, pid := range []int{gone.Process.Pid, os.Getppid()} {
		if err := os.MkdirAll(filepath.Join(below, fmt.Sprint(scratchPrefix, pid), "b1"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := newScratch(below)
	if err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(below, "*"))
	if want := filepath.Join(below, fmt.Sprint(scratchPrefix, os.Getppid())); len(left) != 2 || !strings.Contains(strings.Join(left, " "), want) {
		t.Errorf("left: %v, want %s and %s", left, want, dir)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// A cgroup is taken for left over when no number in its name is the pid of a living process.
func TestCgroupsOfTheLivingStay(t *testing.T) {
	t.Parallel()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		fmt.Sprintf("bellows-j-g1-abc-%d", os.Getpid()):           true,
		fmt.Sprintf("bellows-try-%d-99999999999999", os.Getpid()): true,
		fmt.Sprintf("bellows-j-g1-abc-%d", gone.Process.Pid):      false,
		fmt.Sprintf("bellows-test-%d-1", gone.Process.Pid):        false,
		fmt.Sprintf("bellows-child-%d", gone.Process.Pid):         false,
		fmt.Sprintf("bellows-filter-TestX%d", gone.Process.Pid):   false,
		fmt.Sprintf("bellows-scope-%d-1.scope", gone.Process.Pid): false,
		fmt.Sprintf("bellows-limits-%d-1", os.Getpid()):           true,
		fmt.Sprintf("bellows-try-%d-123456789", gone.Process.Pid): false,
		fmt.Sprintf("bellows-j-g0-a-%d-more-words", os.Getpid()):  true,
		fmt.Sprintf("bellows-%d", os.Getpid()):                    true,
		"bellows-":                                                false,
	} {
		if got := namesLiving(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

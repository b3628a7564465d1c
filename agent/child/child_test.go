package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be a child that says who it is and what it has.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "who" {
		status, err := os.ReadFile("/proc/self/status")
		at, errAt := os.Getwd()
		fmt.Printf("%s%v\nenv %q\nat %s %v\n", status, err, os.Environ(), at, errAt)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// script is a child that is a shell. What it leaves behind ends with the test.
func script(t *testing.T, text string) (Task, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return Task{
		Program: "/bin/sh", Args: []string{"-c", text}, Out: out, Most: 1000,
		Started: func(pid int) { t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) }) },
	}, out
}

// The whole identity: what sysctls, signals and setuid programs go by, too.
func TestAChildIsTheUserAndNothingMore(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start another user's process, and only that is tested here")
	}
	t.Setenv("LD_PRELOAD_OF_ANOTHER", "/tmp/evil.so")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	out := &bytes.Buffer{}
	err := Run(t.Context(), Task{
		Program: Self, Args: []string{"who"}, Out: out, Most: 1 << 20,
		As: &syscall.Credential{Uid: 65534, Gid: 65533, Groups: []uint32{65533, 65532}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Uid:\t65534\t65534\t65534\t65534", "Gid:\t65533\t65533\t65533\t65533", "Groups:\t65532 65533",
		"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
		fmt.Sprintf("env %q", []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}), "at / <nil>",
	} {
		if !strings.Contains(out.String(), want+"\n") && !strings.Contains(out.String(), want+" \n") {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A program that its owner keeps to itself cannot become another user's process.
func TestAProgramForItsOwnerAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start another user's process, and only that is tested here")
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), Task{Program: program, Out: &bytes.Buffer{}, As: &syscall.Credential{Uid: 65534, Gid: 65534}})
	if err == nil || !strings.Contains(err.Error(), program+": permission denied: let every user execute the program") {
		t.Errorf("%v", err)
	}
}

// The parent may still start setuid programs, and its workers what they like: the
// thread that gave the right up is never used again.
func TestNoNewPrivilegesStaysWithTheChild(t *testing.T) {
	for range 20 {
		task, _ := script(t, "exit 0")
		if err := Run(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		after := exec.Command("grep", "NoNewPrivs", "/proc/self/status")
		if out, err := after.Output(); err != nil || string(out) != "NoNewPrivs:\t0\n" {
			t.Fatalf("a process started afterwards: %q, %v", out, err)
		}
	}
}

// A user may do what it likes to a process of its own: it must not keep the agent
// waiting, nor take its memory.
func TestChildrenThatMisbehaveAreNotHeardOut(t *testing.T) {
	task, out := script(t, "cat; echo fine")
	task.In = []byte("hello ")
	if err := Run(t.Context(), task); err != nil || out.String() != "hello fine\n" {
		t.Errorf("one that behaves: %q, %v", out, err)
	}
	task, _ = script(t, "sleep 600 & echo fine")
	if err := Run(t.Context(), task); !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("one that leaves its output to another: %v", err)
	}
	task, _ = script(t, "exec yes >&2")
	if err := Run(t.Context(), task); err == nil || len(err.Error()) > maxComplaint+100 {
		t.Errorf("one that complains for ever: %.100v", err)
	}
	task, out = script(t, "exec yes")
	if err := Run(t.Context(), task); err == nil || out.Len() > task.Most {
		t.Errorf("one that says more than it may: %d bytes, %v", out.Len(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	task, _ = script(t, "exec sleep 600")
	task.Started = func(int) { cancel() }
	begun := time.Now()
	if err := Run(ctx, task); err == nil || time.Since(begun) > time.Minute {
		t.Errorf("one that hangs: %v after %v", err, time.Since(begun))
	}
}

// frozen makes a process that does not end when it is killed, until thaw is called.
func frozen(t *testing.T, pid int) (thaw func()) {
	t.Helper()
	cell := filepath.Join("/sys/fs/cgroup/freezer", fmt.Sprintf("bellows-child-%d", pid))
	if err := os.Mkdir(cell, 0o755); err != nil {
		t.Skipf("a process that SIGKILL does not end can only be made with a cgroup v1 freezer, and root: %v", err)
	}
	set := func(file, text string) {
		if err := os.WriteFile(filepath.Join(cell, file), []byte(text), 0); err != nil {
			t.Error(err)
		}
	}
	thaw = sync.OnceFunc(func() { set("freezer.state", "THAWED") })
	t.Cleanup(func() {
		thaw()
		for end := time.Now().Add(time.Minute); os.Remove(cell) != nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Error("the freezer is not empty")
				return
			}
		}
	})
	set("cgroup.procs", strconv.Itoa(pid))
	set("freezer.state", "FROZEN")
	return thaw
}

// A child that the kernel does not let end keeps nothing but a thread: its caller
// goes on, and there is one such child of a kind at most.
func TestAChildThatDoesNotEndIsLeft(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	task, out := script(t, "while :; do echo more; sleep 0.01; done")
	var thaw func()
	end := task.Started
	task.Started = func(pid int) {
		end(pid)
		thaw = frozen(t, pid)
		cancel()
	}
	var r Runner
	begun := time.Now()
	if err := r.Run(ctx, task); !errors.Is(err, ErrLeft) || !errors.Is(err, context.Canceled) {
		t.Errorf("one that does not end: %v", err)
	}
	if took := time.Since(begun); took < leaveAfter || took > time.Minute {
		t.Errorf("left after %v", took)
	}
	said := out.Len()
	other, _ := script(t, "exit 0")
	if err := r.Run(t.Context(), other); !errors.Is(err, ErrLeft) {
		t.Errorf("another beside it: %v", err)
	}
	if err := Run(t.Context(), other); err != nil {
		t.Errorf("one of another kind: %v", err)
	}
	thaw()
	for end := time.Now().Add(time.Minute); r.Run(t.Context(), other) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no child is started although the one that was left has ended")
		}
	}
	if out.Len() != said {
		t.Errorf("it wrote %d bytes, and after it was left %d", said, out.Len())
	}
}

package e2e

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// script writes a shell script for a job and returns its path.
func (p *place) script(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil { //nolint:gosec // it is to be run
		p.t.Fatal(err)
	}
	return path
}

func (s *scripts) shellJob(name string, text string) job {
	return job{
		"name": name, "min": 1, "max": 1, "workdir": s.dir, "checkpoint-dir": filepath.Join(s.dir, "ckpt"),
		"command": []string{s.script(name+".sh", text)},
	}
}

// awaitTrap waits until a job runs and its scripts have said what becomes of a SIGTERM:
// before that it would end them.
func (r *records) awaitTrap(id cluster.JobID) {
	r.t.Helper()
	workers := r.started(id)
	r.eventually("all scripts to have their traps", func() bool {
		return !slices.ContainsFunc(workers, func(w record.Worker) bool {
			var decided uint64
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.PID))
			for line := range strings.Lines(string(status)) {
				var mask uint64
				if name, value, _ := strings.Cut(line, ":"); name == "SigIgn" || name == "SigCgt" {
					_, _ = fmt.Sscanf(value, "%x", &mask)
				}
				decided |= mask
			}
			return decided>>(syscall.SIGTERM-1)&1 == 0
		})
	})
}

func TestScriptThatIgnoresSIGTERMIsKilledAtTheDeadline(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	j := f.shellJob("deaf", "trap '' TERM\nwhile :; do sleep 0.1; done\n")
	j["halt-timeout"] = "2s"
	id := f.submit(j)
	f.awaitTrap(id)
	f.stop(id)
	s := f.awaitPhase(id, cluster.Stopped)
	if want := "stopped by " + userName() + "; not stopped in time, killed: n1"; s.Reason.String() != want {
		t.Errorf("it ended because %q, want %q", s.Reason, want)
	}
	f.nothingLeft(id)
}

func TestScriptThatForksAndExitsLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	id := f.submit(f.shellJob("forks", "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.1; done' &\nexit 0\n"))
	f.awaitPhase(id, cluster.Succeeded)
	f.nothingLeft(id)
}

// userName is who runs the tests.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ordinaryName
}

// A script that never saves loses its work once, is told so, and keeps its size from then on.
func TestScriptThatNeverSavesIsPinned(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2, policy: "share"})
	j := f.shellJob("forgetful", "trap 'exit 0' TERM\nwhile :; do sleep 0.1; done\n")
	j["max"] = 2
	id := f.submit(j)
	f.awaitTrap(id)
	other := f.submit(f.sdkJob("other", 1, 1, 100000, 0.05))
	f.await("the halt that saves nothing", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation == 2 && s.Phase == cluster.Running && s.Pinned
	})
	f.stop(other)
	f.awaitPhase(other, cluster.Stopped)
	// Devices are idle now, and still it is not moved. A job that comes and goes shows that decisions were made.
	f.awaitPhase(f.submit(f.sdkJob("witness", 1, 1, 5, 0.01)), cluster.Succeeded)
	if s := f.mirror().Job(id).State.Value; s.Generation != 2 {
		t.Errorf("the pinned job was moved: %+v", s)
	}
}

// A script that is halted before it listens for that could not save: it is not pinned for it.
func TestScriptHaltedWhileStartingIsNotPinned(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2, policy: "share"})
	j := f.shellJob("early", "while :; do sleep 0.1; done # it imports\n")
	j["max"] = 2
	id := f.submit(j)
	f.awaitPhase(id, cluster.Running)
	f.submit(f.sdkJob("other", 1, 1, 100000, 0.05))
	f.await("the halt that comes too early", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation == 2 && s.Phase == cluster.Running
	})
	if s := f.mirror().Job(id).State.Value; s.Pinned {
		t.Errorf("it is pinned: %+v", s)
	}
}

// awaitLog waits until a process has written a line with all of the words.
func (ps *processes) awaitLog(p *proc, words ...string) {
	ps.t.Helper()
	var text []byte
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		text, _ = os.ReadFile(p.log)
		for line := range strings.Lines(string(text)) {
			all := true
			for _, w := range words {
				all = all && strings.Contains(line, w)
			}
			if all {
				return
			}
		}
	}
	ps.t.Fatalf("%s never said %q:\n%s", p.name, words, text)
}

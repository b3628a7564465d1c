package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// patient is a script that trains until it is told to save.
const patient = "trap 'echo saved > \"$BELLOWS_CHECKPOINT_DIR/state\"; exit 0' TERM\necho training\nwhile :; do sleep 0.1; done\n"

// What a person can do to a `bellows run` that follows a job, and what becomes of both.
func TestTurningAwayFromARunningJob(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{devices: 8})
	const question = "stop the job? [s]top, [d]etach, Enter = go on: "
	const goesOn = "detached; the job goes on: bellows logs -f"
	const ctrlC = "\x03"
	for _, c := range []struct {
		name     string
		terminal bool
		do       func(*session)
		code     int
		says     string
		phase    cluster.Phase // of the job afterwards
	}{
		{"Ctrl-C, then s: the job saves and stops", true, func(s *session) {
			s.press(ctrlC)
			s.await(question)
			s.press("s\r")
			s.await("asked to stop; it saves first, within 2m00s at most; Ctrl-C detaches")
		}, 1, "stopped by", cluster.Stopped},
		{"Ctrl-C, then d: the job goes on", true, func(s *session) {
			s.press(ctrlC)
			s.await(question)
			s.press("d\r")
		}, 0, goesOn, cluster.Running},
		{"Ctrl-C, then Enter, then Ctrl-C twice: asked again, then detached", true, func(s *session) {
			s.press(ctrlC)
			s.await(question)
			s.press("\r")
			s.await("going on")
			s.press(ctrlC)
			s.awaitTimes(question, 2)
			s.press(ctrlC)
		}, 128 + int(syscall.SIGINT), goesOn, cluster.Running},
		{"Ctrl-C, then something else: told so, and followed on", true, func(s *session) {
			s.press(ctrlC)
			s.await(question)
			s.press("what?\r")
			s.await("neither s nor d: going on")
			s.press(ctrlC)
			s.awaitTimes(question, 2)
			s.press("d\r")
		}, 0, goesOn, cluster.Running},
		{"Ctrl-C without a terminal to ask on: detached", false, func(s *session) { s.signal(syscall.SIGINT) }, 128 + int(syscall.SIGINT), goesOn, cluster.Running},
		{"the terminal is gone: detached", true, func(s *session) { s.drop() }, 0, "", cluster.Running},
		{"SIGHUP: detached", false, func(s *session) { s.signal(syscall.SIGHUP) }, 0, "", cluster.Running},
		{"SIGTERM: detached", false, func(s *session) { s.signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM), goesOn, cluster.Running},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			here := f.in(t)
			name := strings.ToLower(strings.Map(lettersOnly, c.name))
			cmd := here.command(1, "run", "--name", name, "--max", "1", "--checkpoint-dir", filepath.Join(here.dir, "ckpt"), "--", here.script(name+".sh", patient))
			start := startSession
			if c.terminal {
				start = startOnTerminal
			}
			s := start(t, cmd)
			s.await("training")
			c.do(s)
			if code := s.wait(); code != c.code || !strings.Contains(s.said(), c.says) {
				t.Errorf("exit %d, want %d, and %q in:\n%s", code, c.code, c.says, s.said())
			}
			id := cluster.JobID(here.show(cluster.JobID(name)).ID)
			here.awaitPhase(id, c.phase) // it may have trained before the leader knew
			if c.phase == cluster.Running {
				here.stop(id)
			}
			here.awaitPhase(id, cluster.Stopped)
			if committed := here.mirror().Job(id).Committed; !committed.Exists() {
				t.Error("it was stopped without a save")
			}
			here.nothingLeft(id)
		})
	}
}

// Once asked to stop, the job saves on, however often its owner presses Ctrl-C.
func TestCtrlCWhileAJobStopsDetaches(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	text := "trap 'while [ ! -e go ]; do sleep 0.1; done; echo saved > \"$BELLOWS_CHECKPOINT_DIR/state\"; exit 0' TERM\necho training\nwhile :; do sleep 0.1; done\n"
	s := startOnTerminal(t, f.command(1, "run", "--name", "saver", "--max", "1", "--workdir", f.dir, "--checkpoint-dir", filepath.Join(f.dir, "ckpt"), "--", f.script("saver.sh", text)))
	s.await("training")
	s.press("\x03")
	s.await("stop the job? ")
	s.press("s\r")
	s.await("; Ctrl-C detaches")
	id := cluster.JobID(f.show("saver").ID)
	f.awaitPhase(id, cluster.Halting)
	s.press("\x03")
	if code, want := s.wait(), 128+int(syscall.SIGINT); code != want || !strings.Contains(s.said(), "detached; the job saves and stops by itself: bellows show saver") {
		t.Errorf("exit %d, want %d, and it said:\n%s", code, want, s.said())
	}
	status := f.show("saver")
	if !status.Saving || status.SaveUntil == nil {
		t.Errorf("it does not save on: %s, %q", status.Phase, status.Reason)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.awaitPhase(id, cluster.Stopped)
	if !f.mirror().Job(id).Committed.Exists() {
		t.Error("its save was cut short")
	}
	f.nothingLeft(id)
}

// lettersOnly makes a job's name of a sentence.
func lettersOnly(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return -1
}

// A second stop, while the script takes its time over the save, says how to kill it, and does not.
func TestOnlyStopNowCutsASaveShort(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	id := f.submit(f.shellJob("slow", "trap 'sleep 3600' TERM\nwhile :; do sleep 0.1; done\n"))
	f.awaitTrap(id)
	f.stop(id)
	f.awaitPhase(id, cluster.Halting)
	if _, errs, code := f.bellows("stop", string(id)); code != 0 || !strings.Contains(errs, "bellows stop --now "+string(id)+" kills it") {
		t.Errorf("a second stop exits %d and says %q", code, errs)
	}
	begun := time.Now()
	if _, errs, code := f.bellows("stop", "--now", string(id)); code != 0 || !strings.Contains(errs, "what it has not saved is lost") {
		t.Errorf("stop --now exits %d and says %q", code, errs)
	}
	s := f.awaitPhase(id, cluster.Stopped)
	if took, most := time.Since(begun), time.Duration(cluster.DefaultHaltTimeout); took >= most {
		t.Errorf("it was killed after %v, by the deadline of the save", took)
	}
	if want := "stopped at once by " + userName() + "; its save was not waited for"; s.Reason.String() != want {
		t.Errorf("it ended because %q, want %q", s.Reason, want)
	}
	f.nothingLeft(id)
}

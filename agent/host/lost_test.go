package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/record"
)

// nested is a worker whose child outlives it, and says that it is there.
func nested() []string {
	return []string{"/bin/sh", "-c", `sh -c 'echo $$ > child.tmp; mv child.tmp "child-$BELLOWS_GENERATION"; while :; do sleep 0.05; done' & wait`}
}

// child waits for the child of a generation's worker.
func (f *fixture) child(generation int) record.Worker {
	f.Helper()
	var w record.Worker
	f.until("the worker's child", func() bool {
		text, err := os.ReadFile(filepath.Join(f.dir, fmt.Sprintf("child-%d", generation)))
		if err != nil {
			return false
		}
		if _, err = fmt.Sscan(string(text), &w.PID); err != nil {
			f.Fatal(err)
		}
		seen, ok := proc.Inspect(w.PID)
		w.StartTime = seen.StartTime
		return ok
	})
	return w
}

// killShim kills a run's shim, and its holder before that, which would end what it leaves.
func (f *fixture) killShim(run rundir.Run) {
	f.Helper()
	shim, err := proc.ReadStat(run.Shim.PID)
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(syscall.Kill(shim.PPID, syscall.SIGKILL), syscall.Kill(shim.PID, syscall.SIGKILL)); err != nil {
		f.Fatal(err)
	}
	f.until("the shim's end", func() bool { return !proc.Alive(run.Shim) })
}

// Once an agent and a shim are killed together, only the shim's holder knows of the
// workers. What a worker has started ends all the same.
func TestAgentAndShimKilledTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	agent := f.process(s)
	f.alive("n1")
	j := f.job("both", nested(), map[string]int{"n1": 2}, "n1")
	f.start(j)
	started := ack[record.Started](f, j, "n1", record.AckStarted)
	child := f.child(1)
	runs, _, err := rundir.Scan(filepath.Join(s.Dir, "r"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
	if err := errors.Join(agent.Process.Kill(), syscall.Kill(runs[0].Shim.PID, syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	for _, w := range append(started.Workers, child) {
		f.until("the end of what the shim has left", func() bool { return !lives(w) })
	}
}

// Whatever becomes of what an agent wrote of its runs: as long as their processes
// live, nothing is acknowledged as stopped. On a lone node no deadline helps.
func TestWhatLivesIsNotStopped(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(f *fixture, s *settings, run rundir.Run) error{
		"directory": func(_ *fixture, _ *settings, run rundir.Run) error { return removeAll(run.Dir) },
		"all directories": func(_ *fixture, s *settings, _ rundir.Run) error {
			return removeAll(filepath.Join(s.Dir, "r"))
		},
		"directory, dead shim": func(f *fixture, _ *settings, run rundir.Run) error {
			f.killShim(run)
			return removeAll(run.Dir)
		},
		"order": func(_ *fixture, _ *settings, run rundir.Run) error {
			return os.Truncate(filepath.Join(run.Dir, "order.json"), 10)
		},
		"run record": func(_ *fixture, _ *settings, run rundir.Run) error {
			return os.WriteFile(filepath.Join(run.Dir, "shim.json"), []byte(`{"version":99}`), 0o600)
		},
		"another place": func(_ *fixture, s *settings, _ rundir.Run) error {
			s.Runs = "q"
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := f.settings("n1")
			stop := f.agent(s)
			j := f.job("lost", nested(), map[string]int{"n1": 2}, "n1")
			f.start(j)
			started := ack[record.Started](f, j, "n1", record.AckStarted)
			child := f.child(1)
			stop()
			runs, _, err := rundir.Scan(filepath.Join(s.Dir, "r"))
			if err != nil || len(runs) != 1 {
				t.Fatalf("runs: %v, %v", runs, err)
			}
			if err := lose(f, &s, runs[0]); err != nil {
				t.Fatal(err)
			}
			if !lives(child) {
				t.Fatal("the child is gone already: this tests nothing")
			}
			f.agent(s)
			if name == "another place" { // its agent has adopted it from there
				f.commit(record.Delete(record.PermitKey(j.Job, 1)))
			} else {
				failed := ack[record.Failed](f, j, "n1", record.AckFailed)
				if failed.Kind != record.NodeFenced {
					t.Errorf("failed: %+v", failed)
				}
			}
			ack[record.Stopped](f, j, "n1", record.AckStopped)
			for _, w := range append(started.Workers, child) {
				if lives(w) {
					t.Errorf("process %d lives although it is acknowledged as stopped", w.PID)
				}
			}
			next := *j
			next.Generation = 2
			f.start(&next)
			ack[record.Started](f, &next, "n1", record.AckStarted)
			f.commit(record.Delete(record.PermitKey(next.Job, 2)))
			ack[record.Stopped](f, &next, "n1", record.AckStopped)
			f.until("no run directory", func() bool { return f.empty(s) })
		})
	}
}

// The directory may also go under an agent that lives; the shim says all that is
// left to say, and what its death leaves behind is still found.
func TestADirectoryThatIsRemovedUnderALivingAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	j := f.job("lost", nested(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	started := ack[record.Started](f, j, "n1", record.AckStarted)
	child := f.child(1)
	runs, _, err := rundir.Scan(filepath.Join(s.Dir, "r"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
	if err := removeAll(runs[0].Dir); err != nil {
		t.Fatal(err)
	}
	f.killShim(runs[0])
	ack[record.Failed](f, j, "n1", record.AckFailed)
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	for _, w := range append(started.Workers, child) {
		if lives(w) {
			t.Errorf("process %d lives although it is acknowledged as stopped", w.PID)
		}
	}
}

// Where the directory of the runs cannot be read, the agent does not know what runs:
// it acknowledges nothing until it can.
func TestAnUnreadablePlaceOfRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	stop := f.agent(s)
	j := f.job("lost", nested(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	ack[record.Started](f, j, "n1", record.AckStarted)
	f.child(1)
	stop()
	root := filepath.Join(s.Dir, "r")
	if err := errors.Join(os.Rename(root, root+".away"), os.WriteFile(root, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	log := f.logged(s)
	f.until("a word about it", func() bool { return strings.Contains(log.String(), "cannot tell which runs are here") })
	f.alive("n1")
	if !f.absent(record.AckKey("n1", j.Job, 1, record.AckStopped)) {
		t.Error("acknowledged as stopped")
	}
	if err := errors.Join(os.Remove(root), os.Rename(root+".away", root)); err != nil {
		t.Fatal(err)
	}
	f.until("the run's adoption", func() bool { return strings.Contains(log.String(), "adopted a run") })
	f.commit(record.Delete(record.PermitKey(j.Job, 1)))
	ack[record.Stopped](f, j, "n1", record.AckStopped)
}

// removeAll removes a directory in which a shim may just put a file, which it does few times.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	for errors.Is(err, syscall.ENOTEMPTY) {
		err = os.RemoveAll(dir)
	}
	return err
}

package shim

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
)

const python = "/usr/bin/python3"

// trainer is a script as users write them: it takes steps of some milliseconds
// until it is stopped, and leaves what it did in its workdir.
const trainer = `
import os, time, bellows
rank = bellows.rank()
def note(name, text):
    with open("%s-%d.tmp" % (name, rank), "w") as f: f.write(str(text) + "\n")
    os.rename("%s-%d.tmp" % (name, rank), "%s-%d" % (name, rank))
def write(directory):
    with open(os.path.join(directory, "model"), "w") as f: f.write("weights of %d" % rank)
step = 0
while not bellows.should_stop(step):
    time.sleep(0.005 * (rank + 1))
    step += 1
    bellows.report(step, loss=1.0 / step)
    if step == 3:
        bellows.save(step, write)
        note("ready", step)
bellows.save(step, write)
note("end", step)
`

func (f *fixture) python(script string) *fixture {
	f.t.Helper()
	path := filepath.Join(f.order.Workdir, "train.py")
	if err := os.WriteFile(path, []byte(script), 0o644); err != nil {
		f.t.Fatal(err)
	}
	f.order.Command = []string{python, "train.py"}
	return f
}

func TestHaltWithSDK(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3, "").python(trainer).start()
	f.started()
	for i := range 3 {
		f.awaitFile("ready-" + strconv.Itoa(i))
	}
	f.push(run.Wish{Halt: halt(true, time.Minute)})
	r := f.await("held", func(r run.Report) bool { return r.Held != nil })
	if !r.Held.SDK || r.Held.Begun < 2 || r.Held.Deaf {
		t.Fatalf("held %+v", r.Held)
	}
	if r.Progress == nil || r.Progress.Step < 1 || r.Progress.Loss == nil {
		t.Errorf("progress %+v", r.Progress)
	}
	last := r.Held.Begun + 2 // another node may have begun more
	f.push(run.Wish{Halt: halt(true, time.Minute, last)})
	r = f.stopped()
	if r.Failed != nil || r.Stopped.Finished || r.Stopped.SignalledAt.IsZero() || r.Stopped.SignalledAt.After(r.Stopped.ExitedAt) {
		t.Errorf("failed %+v, stopped %+v", r.Failed, r.Stopped)
	}
	for i, e := range r.Stopped.Exits {
		if e.Rank != i || e.Code != 0 {
			t.Errorf("exit %+v", e)
		}
		if got, want := f.awaitFile("end-"+strconv.Itoa(i)), strconv.FormatInt(last+1, 10)+"\n"; got != want {
			t.Errorf("rank %d ended at step %q, want %q", i, got, want)
		}
	}
	final := 0
	for _, s := range r.Saves {
		if s.Step == last+1 && strings.HasPrefix(s.Dir, f.order.Checkpoint+"/step-") {
			final++
		}
	}
	if final != 3 {
		t.Errorf("saves %+v: want all ranks' of step %d", r.Saves, last+1)
	}
	f.retire()
	if disk, err := rundir.ReadReport(f.dir); err != nil || len(disk.Saves) != len(r.Saves) {
		t.Errorf("the journal has %+v, %v", disk.Saves, err)
	}
}

// A rank that is still importing when the halt comes is not ended while another
// has begun a step: it is waited for, takes the same last step, and saves with it.
func TestHaltWaitsForRanksThatHaveNotConnected(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "").python(`
import os, time
if os.environ["RANK"] == "1":
    open("importing-1", "w").write("yes\n")
    while not os.path.exists("go"):
        time.sleep(0.01)
import bellows
step = 0
while not bellows.should_stop(step):
    time.sleep(0.01)
    step += 1
    bellows.report(step)
open("end-" + os.environ["RANK"], "w").write("%d\n" % step)
`).start()
	f.awaitFile("importing-1")
	f.await("steps of the rank that has connected", func(r run.Report) bool { return r.Workers != nil && r.Progress != nil })
	f.push(run.Wish{Halt: halt(true, time.Minute)})
	r := f.await("held", func(r run.Report) bool { return r.Held != nil })
	if !r.Held.SDK || r.Held.Begun < 0 || !r.Held.Deaf { // rank 1 imports

		t.Errorf("held %+v", r.Held)
	}
	f.push(run.Wish{Halt: halt(true, time.Minute, r.Held.Begun)})
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go"), "", 0o600)
	last := r.Held.Begun
	r = f.stopped()
	if r.Failed != nil || r.Stopped.Exits[1].Code != 0 || r.Stopped.Exits[0].Code != 0 {
		t.Errorf("stopped %+v, failed %+v", r.Stopped, r.Failed)
	}
	for _, rank := range []string{"0", "1"} {
		if got, want := f.awaitFile("end-"+rank), strconv.FormatInt(last+1, 10)+"\n"; got != want {
			t.Errorf("rank %s ended at step %q, want %q", rank, got, want)
		}
	}
}

const plain = `
trap 'echo saving; sleep 0.1; echo saved > saved-$RANK; exit 0' TERM
echo up > up-$RANK
while :; do sleep 0.02; done`

func TestHaltOfPlainScripts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, plain).start()
	f.awaitFile("up-0")
	f.awaitFile("up-1")
	f.push(run.Wish{Halt: halt(true, time.Minute)})
	if r := f.await("held", func(r run.Report) bool { return r.Held != nil }); r.Stopped != nil {
		t.Errorf("stopped before the leader's word: %+v", r.Stopped)
	}
	f.push(run.Wish{Halt: terminated()})
	r := f.stopped()
	if r.Held == nil || r.Held.SDK || r.Held.Begun != -1 || r.Held.Deaf {
		t.Errorf("held %+v", r.Held)
	}
	if r.Failed != nil || r.Stopped.Finished || r.Stopped.SignalledAt.IsZero() {
		t.Errorf("failed %+v, stopped %+v", r.Failed, r.Stopped)
	}
	f.awaitFile("saved-0")
	f.awaitFile("saved-1")
	f.retire()
}

// A script that does not catch SIGTERM, or has not come as far, says so by its shim.
func TestHaltOfScriptsThatDoNotListen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, `[ "$RANK" = 0 ] && trap 'exit 0' TERM
echo up > up-$RANK
while :; do sleep 0.02; done`).start()
	f.awaitFile("up-0")
	f.awaitFile("up-1")
	f.push(run.Wish{Halt: halt(true, time.Minute)})
	if r := f.await("held", func(r run.Report) bool { return r.Held != nil }); r.Held.SDK || !r.Held.Deaf {
		t.Errorf("held %+v", r.Held)
	}
	f.push(run.Wish{Halt: terminated()})
	f.stopped()
	f.retire()
}

// SIGTERM is for the worker alone: its children are needed for the last step.
func TestSIGTERMReachesTheWorkerOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, `
sh -c 'trap "echo hit > child-hit" TERM; while :; do sleep 0.02; [ -e bye ] && exit; done' & 
trap 'sleep 0.2; touch bye; wait; exit 0' TERM
echo up > up-0
while :; do sleep 0.02; done`).start()
	f.awaitFile("up-0")
	f.push(run.Wish{Halt: terminated()})
	if r := f.stopped(); r.Stopped.Exits[0].Code != 0 || len(r.Leftover) > 0 {
		t.Errorf("stopped %+v, leftover %v", r.Stopped, r.Leftover)
	}
	if _, err := os.Stat(filepath.Join(f.order.Workdir, "child-hit")); err == nil {
		t.Error("the worker's child got the SIGTERM too")
	}
}

// deafened is stubborn, and says that it was told.
const deafened = `trap 'echo told > told-$RANK' TERM; echo up > up-$RANK; while :; do sleep 0.02; done`

const stubborn = `trap '' TERM; echo up > up-$RANK; while :; do sleep 0.02; done`

func TestHaltsThatEndInSIGKILL(t *testing.T) {
	t.Parallel()
	const atMost = time.Minute / 2 // on a busy machine; before the halts' own time is over
	for name, c := range map[string]struct {
		wish  run.Wish
		least time.Duration
		told  bool // by SIGTERM before: a busy machine's workers may not come as far as to say so
	}{
		"no save allowed":  {run.Wish{Halt: halt(false, time.Minute)}, 0, false},
		"nothing begun":    {run.Wish{Halt: halt(true, time.Minute, -1)}, run.StopGrace, true},
		"its time is over": {run.Wish{Halt: halt(true, 300*time.Millisecond)}, 300 * time.Millisecond, false},
		"no permit":        {run.Wish{Kill: "its permit was withdrawn"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2, deafened).start()
			f.awaitFile("up-0")
			f.awaitFile("up-1")
			begun := time.Now()
			f.push(c.wish)
			r := f.stopped()
			if took := time.Since(begun); took > atMost || took < c.least {
				t.Errorf("took %v, want %v to %v", took, c.least, atMost)
			}
			for _, name := range []string{"told-0", "told-1"} {
				if _, err := os.Stat(filepath.Join(f.order.Workdir, name)); err == nil && !c.told {
					t.Errorf("%s: it was told to go before it was killed", name)
				}
			}
			if r.Failed != nil || r.Stopped.Finished {
				t.Errorf("failed %+v, stopped %+v", r.Failed, r.Stopped)
			}
			for _, e := range r.Stopped.Exits {
				if e.Code != -1 || e.Signal != int(syscall.SIGKILL) {
					t.Errorf("exit %+v", e)
				}
			}
			f.retire()
		})
	}
}

func TestAHaltCannotBeTakenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, plain).start()
	f.awaitFile("up-0")
	f.push(run.Wish{Halt: terminated()})
	f.push(run.Wish{})
	if r := f.stopped(); r.Stopped.Exits[0].Code != 0 {
		t.Errorf("stopped %+v", r.Stopped)
	}
}

// An agent that was started anew pushes a wish before it has read the halt: the
// time that the halt gave its workers runs on.
func TestAHaltsTimeRunsOnWhateverIsWishedNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, `trap '' TERM; echo up > up-0; while :; do sleep 0.02; done`).start()
	f.awaitFile("up-0")
	f.push(run.Wish{Halt: halt(true, 300*time.Millisecond)})
	f.push(run.Wish{})
	if r := f.stopped(); r.Stopped.Exits[0].Signal != int(syscall.SIGKILL) {
		t.Errorf("stopped %+v", r.Stopped)
	}
	f.retire()
}

func TestHaltBeforeTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo ran > ran")
	f.order.Strict = true // and no deadline: so it cannot have started yet
	f.start()
	f.await("waiting", func(r run.Report) bool { return strings.Contains(r.Waiting, "deadline") })
	f.push(run.Wish{Halt: halt(true, time.Minute)})
	r := f.stopped()
	if r.Held == nil || r.Held.Begun != -1 || !r.Held.Deaf || r.Stopped.Finished || len(r.Stopped.Exits) != 0 || r.Workers != nil {
		t.Errorf("report %+v, stopped %+v", r, r.Stopped)
	}
	if _, err := os.Stat(filepath.Join(f.order.Workdir, "ran")); err == nil {
		t.Error("it ran")
	}
	f.retire()
}

func TestWorkersErrInAHaltWithoutFailure(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, `trap 'exit 7' TERM; echo up > up-0; while :; do sleep 0.02; done`).start()
	f.awaitFile("up-0")
	f.push(run.Wish{Halt: terminated()})
	if r := f.stopped(); r.Failed != nil || r.Stopped.Exits[0].Code != 7 {
		t.Errorf("failed %+v, stopped %+v", r.Failed, r.Stopped)
	}
}

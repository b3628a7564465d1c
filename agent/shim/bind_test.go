package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// prepared makes of a fixture a prepared run: what it starts with has no plan, which
// plan returns.
func (f *fixture) prepared() (plan run.Order) {
	f.order.Prepare = &run.Prepare{}
	f.order.World.Nonce = "0123456789abcdef"
	plan = f.order
	f.order.World.Members, f.order.World.Master, f.order.World.BatchSize = nil, cluster.Endpoint{}, 0
	f.order.Checkpoint = ""
	return plan
}

// startPrepared starts a prepared run, and waits until it says what it has.
func (f *fixture) startPrepared() run.Report {
	f.t.Helper()
	return f.start().await("prepared", func(r run.Report) bool {
		return r.Prepared != nil && (r.Prepared.Ready || r.Prepared.Cold != "")
	})
}

func (f *fixture) bind(plan run.Order) {
	f.t.Helper()
	if err := Bind(f.dir, plan); err != nil {
		f.t.Fatal(err)
	}
	f.order = plan
}

func TestAPreparedRunWaitsAndStarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, `env > env-$RANK; echo up > up-$RANK; trap "exit 0" TERM; sleep 100 & wait`)
	plan := f.prepared()
	r := f.startPrepared()
	if r.Workers != nil || r.Stopped != nil || r.Failed != nil || len(heldStill(plan, f.dir)) > 0 {
		t.Fatalf("before its start: %+v", r)
	}
	plan.Checkpoint = filepath.Join(f.root, "ckpt", "train-abcdef", "g00000003")
	f.bind(plan)
	f.bind(plan) // an agent that was restarted does it again
	f.push(run.Wish{Start: true})
	if r = f.started(); len(r.Workers) != 2 || r.Warm {
		t.Fatalf("workers %+v", r)
	}
	f.awaitFile("up-1")
	if env := f.read("work", "env-1"); !strings.Contains(env, "WORLD_SIZE=2\n") || !strings.Contains(env, "BELLOWS_CHECKPOINT_DIR="+plan.Checkpoint+"\n") {
		t.Errorf("environment of rank 1:\n%s", env)
	}
	if held := heldStill(plan, f.dir); len(held) != 2 {
		t.Errorf("its locks: %v", held)
	}
	f.push(run.Wish{}) // what it was told stays
	f.push(run.Wish{Halt: terminated()})
	f.stopped()
	f.retire()
}

// A start that arrives before the order, or for another one, starts nothing.
func TestBindRefusesOtherOrders(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "touch ran")
	plan := f.prepared()
	f.startPrepared()
	for name, spoil := range map[string]func(*run.Order){
		"generation":  func(o *run.Order) { o.World.Generation++ },
		"nonce":       func(o *run.Order) { o.World.Nonce = "fedcba9876543210" },
		"owner":       func(o *run.Order) { o.Owner.UID++ },
		"command":     func(o *run.Order) { o.Command = append([]string{"/bin/echo"}, o.Command...) },
		"environment": func(o *run.Order) { o.Env = map[string]string{"PATH": "/bin"} },
		"workdir":     func(o *run.Order) { o.Workdir = "/" },
		"limits":      func(o *run.Order) { o.Limits.CPUs = 1 },
		"no plan":     func(o *run.Order) { o.World.Members = nil },
		"other node":  func(o *run.Order) { o.Node = "n2" },
	} {
		other := plan
		spoil(&other)
		if err := Bind(f.dir, other); err == nil {
			t.Errorf("%s: bound", name)
		}
	}
	f.bind(plan)
	second := plan
	second.World.Master.Port++
	if err := Bind(f.dir, second); err == nil || !strings.Contains(err.Error(), "another plan") {
		t.Errorf("a second plan: %v", err)
	}
	f.push(run.Wish{Start: true})
	f.stopped()
	f.retire()
	if f.read("work", "ran") != "" {
		t.Error("it did not run")
	}
}

func TestAStartWithoutAPlanFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "touch ran")
	f.prepared()
	f.startPrepared()
	f.push(run.Wish{Start: true})
	if r := f.stopped(); r.Failed == nil || !strings.Contains(r.Failed.Reason, "no plan") || r.Workers != nil {
		t.Errorf("report %+v", r)
	}
	f.retire()
	if _, err := os.Stat(filepath.Join(f.root, "work", "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran: %v", err)
	}
}

func TestAPreparedRunEnds(t *testing.T) {
	t.Parallel()
	deadline := func() run.Wish { return run.Wish{Deadline: proc.Boottime() + int64(50*time.Millisecond)} }
	for name, w := range map[string]func() run.Wish{
		"kill":     func() run.Wish { return run.Wish{Kill: "test"} },
		"retire":   func() run.Wish { return run.Wish{Retire: true} },
		"halt":     func() run.Wish { return run.Wish{Halt: &record.Halt{Why: reason.Said("test"), Save: true}} },
		"deadline": deadline,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "touch ran")
			plan := f.prepared()
			f.order.Strict, f.order.Deadline = true, fence.Never
			plan.Strict = true
			f.startPrepared()
			f.push(w())
			if name == "retire" { // it may be gone before it has said all, or is told again
				f.left()
			} else {
				if r := f.stopped(); r.Workers != nil || r.Stopped.Finished || (r.Failed != nil) != (name == "deadline") {
					t.Errorf("report %+v", r)
				}
				f.retire()
			}
			if r, err := rundir.ReadReport(f.dir); err != nil || r.Stopped == nil {
				t.Errorf("last report %+v, %v", r, err)
			}
		})
	}
}

// An agent that comes back finds a prepared run by its order, and starts it.
func TestAPreparedRunIsAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "exit 0")
	plan := f.prepared()
	f.startPrepared()
	_ = f.conn.Close()
	runs, _, err := rundir.Scan(f.root)
	if err != nil || len(runs) != 1 || runs[0].Order.Planned() || !proc.Alive(runs[0].Shim) {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	f.dial()
	f.await("its report", func(r run.Report) bool { return r.Prepared != nil })
	f.bind(plan)
	if runs, _, err = rundir.Scan(f.root); err != nil || len(runs) != 1 || !runs[0].Order.Planned() {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	f.push(run.Wish{Start: true})
	if r := f.stopped(); !r.Stopped.Finished {
		t.Errorf("report %+v", r)
	}
	f.retire()
}

// What a prepared shim that was killed has left is swept, with its plan and without.
func TestAPreparedRunIsSwept(t *testing.T) {
	t.Parallel()
	for _, bound := range []bool{false, true} {
		f := newFixture(t, 1, "sleep 100")
		plan := f.prepared()
		f.startPrepared()
		if bound {
			f.bind(plan)
			f.push(run.Wish{Start: true})
			f.started()
		}
		if err := unix.Kill(f.shim.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		f.gone("shim", f.shim)
		if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
			t.Error(err)
		}
		f.nothingLeft()
	}
}

package serve

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// occupied is a store in which one job has the only two devices for ten minutes more, as its
// reports say, and a leader decides by a policy.
func occupied(t *testing.T, policy string) *fakeStore {
	t.Helper()
	store, now := newFakeStore(), time.Now()
	store.put(t,
		record.Put(record.LeaderPrefix+"1", record.Leader{Node: "c1", Policy: policy, Interval: cluster.Duration(10 * time.Second)}),
		record.Put(record.AliveKey("n1"), record.Alive{}),
		record.Put(record.InventoryKey("n1"), record.Inventory{Devices: []cluster.Device{
			{ID: "D-n1-0", Model: "A100", Health: cluster.Healthy}, {ID: "D-n1-1", Model: "A100", Health: cluster.Healthy},
		}}),
	)
	store.admit(t, "runs-aaaaaa", self(), record.State{Phase: cluster.Running, Generation: 1})
	store.plan(t, "runs-aaaaaa", 1, "n1")
	spec := goodSpec("runs")
	spec.MinWorkers, spec.MaxWorkers, spec.Steps = 2, 2, 1000
	store.put(t,
		record.Put(record.SpecKey("runs-aaaaaa"), record.Submitted{Spec: spec, ID: "runs-aaaaaa", Owner: self(), At: now.Add(-time.Hour)}),
		record.Put(record.ProgressKey("n1"), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{
			"runs-aaaaaa": {Generation: 1, Step: 400, At: now, StepsPerSecond: 1},
		}}),
	)
	store.admit(t, "waits-aaaaaa", self(), record.State{Phase: cluster.Queued})
	return store
}

// A job that waits is shown with when it will start: when the one that runs has ended.
func TestJobsThatWaitHaveAPredictedStart(t *testing.T) {
	t.Parallel()
	a := serve(t, occupied(t, "fifo"), "n1", nil)
	jobs, err := a.Jobs(t.Context(), false)
	if err != nil || len(jobs) != 2 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	one, err := a.Job(t.Context(), "waits")
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range append(jobs, one) {
		s := j.Start
		if j.Name == "runs" {
			if s != nil {
				t.Errorf("a job that runs starts again: %+v", s)
			}
			continue
		}
		if s == nil || s.At == nil || s.Low == nil || s.High == nil || s.Never || s.Workers == 0 {
			t.Fatalf("%+v", s)
		}
		if in := time.Until(*s.At); in < 5*time.Minute || in > 15*time.Minute || s.Low.After(*s.At) || s.High.Before(*s.At) {
			t.Errorf("in %v, from %v to %v", in, s.Low, s.High)
		}
	}
}

// A dry run is refused for what a submission is refused for, says when the job would
// start and end, and writes nothing.
func TestADryRunWritesNothing(t *testing.T) {
	t.Parallel()
	store := occupied(t, "fifo")
	a := serve(t, store, "n1", nil)
	before := store.mem.Revision()
	ask := func(spec cluster.Spec) (api.DryRunReply, error) {
		return a.DryRun(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec})
	}
	spec := goodSpec("next")
	spec.MinWorkers, spec.MaxWorkers, spec.ETA = 2, 2, cluster.Duration(time.Hour)
	due := time.Now().Add(24 * time.Hour)
	spec.Deadline, spec.OrBestEffort = &due, true
	r, err := ask(spec)
	if err != nil || r.Refused || r.Policy != "fifo" || r.Leader != "c1" || r.Start == nil || r.Start.At == nil || r.WorkUnknown || len(r.Shrinks) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.Answer == nil || r.Answer.Promised || !strings.Contains(r.Answer.Why, "promises no deadlines") {
		t.Errorf("%+v", r.Answer)
	}
	if spec.OrBestEffort = false; true {
		if r, err = ask(spec); err != nil || !r.Refused {
			t.Errorf("%+v, %v", r, err)
		}
	}
	large := goodSpec("large")
	large.MinWorkers, large.MaxWorkers, large.BatchSize = 8, 8, cluster.BatchSize{Min: 64, Max: 64}
	if r, err = ask(large); err != nil || r.Start == nil || !r.Start.Never || r.Start.Why == "" || len(r.Warnings) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err = ask(goodSpec("runs")); api.CodeOf(err) != api.InUse {
		t.Errorf("a name in use: %v", err)
	}
	bad := goodSpec("bad")
	bad.MinWorkers = 0
	bad.MaxWorkers = -1
	_, said := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: bad})
	if _, err = ask(bad); api.CodeOf(err) != api.Invalid || said == nil || err.Error() != said.Error() {
		t.Errorf("%v, but submitted %v", err, said)
	}
	if got := store.mem.Revision(); got != before || len(store.requests(t, "n1")) != 0 {
		t.Errorf("revision %d, was %d", got, before)
	}
}

// Where it is not known how decisions are made, a dry run says why, and jobs are shown without a start.
func TestNoLookAheadWithoutALeader(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{"": "earlier version", "tomorrow": "upgrade the agent", "-": "no coordinator leads"} {
		store := occupied(t, policy)
		if policy == "-" {
			store.put(t, record.Delete(record.LeaderPrefix+"1"))
		}
		a := serve(t, store, "n1", nil)
		if _, err := a.DryRun(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("next")}); api.CodeOf(err) != api.Unavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", policy, err)
		}
		if j, err := a.Job(t.Context(), "waits"); err != nil || j.Start != nil {
			t.Errorf("%q: %+v, %v", policy, j.Start, err)
		}
	}
}

// The leader that a dry run names is the one whose policy it asks, also if another one led when the job was examined.
func TestADryRunNamesTheLeaderThatItAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := occupied(t, "fifo")
		s := NewServer(Config{
			KV: store, Watch: store.watch, Node: "n1", LogDir: t.TempDir(), Version: "test", Log: zerolog.Nop(),
			Silence: func() time.Duration { return 0 }, Space: store.space, Gossip: func() map[cluster.NodeID]string { return nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.view.run(ctx)
		synctest.Wait() // the records are read
		leave, err := s.submissions.ahead.enter(ctx)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan api.DryRunReply)
		go func() {
			r, err := s.submissions.dryRun(ctx, api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("next")}, self())
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		synctest.Wait() // the job is examined, and the look-ahead waits for its turn
		store.put(t, record.Delete(record.LeaderPrefix+"1"), record.Put(record.LeaderPrefix+"2", record.Leader{Node: "c2", Policy: "greedy", Interval: cluster.Duration(10 * time.Second)}))
		synctest.Wait()
		leave()
		if r := <-done; r.Leader != "c2" || r.Policy != "greedy" {
			t.Errorf("policy %q of %q, want greedy of c2", r.Policy, r.Leader)
		}
	})
}

// A look-ahead takes a processor: the next one waits for its turn, or gives up with its caller.
func TestOneLookAheadAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForesight(nil)
		leave, err := f.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(t.Context(), lookFor)
		defer cancel()
		if _, err := f.enter(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two at once: %v", err)
		}
		entered := make(chan error)
		go func() {
			end, err := f.enter(t.Context())
			if err == nil {
				end()
			}
			entered <- err
		}()
		synctest.Wait()
		leave()
		if err := <-entered; err != nil {
			t.Error(err)
		}
	})
}

// A look-ahead stops after a second, and with its caller.
func TestALookAheadEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		slow := within(ctx)
		time.Sleep(lookFor)
		if slow() {
			t.Error("stopped before its time was up")
		}
		time.Sleep(time.Nanosecond)
		if !slow() {
			t.Error("goes on when its time is up")
		}
		left := within(ctx)
		cancel()
		if !left() {
			t.Error("goes on for a caller that has gone")
		}
	})
}

// What was predicted is shown to all who ask within some seconds, and for longer only
// while the next look-ahead waits for its turn.
func TestPredictionsAreShownForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForesight(nil)
		if starts, fresh := f.last(); starts != nil || fresh {
			t.Errorf("before any: %v, fresh %t", starts, fresh)
		}
		f.at, f.starts = time.Now(), map[cluster.JobID]api.PredictedStart{"j": {Workers: 1}}
		for _, c := range []struct {
			age   time.Duration
			shown int
			fresh bool
		}{{0, 1, true}, {lookEvery - 1, 1, true}, {lookEvery, 1, false}, {lookAtMost, 1, false}, {lookAtMost + 1, 0, false}} {
			time.Sleep(c.age - time.Since(f.at))
			if starts, fresh := f.last(); len(starts) != c.shown || fresh != c.fresh {
				t.Errorf("after %v: %v, fresh %t", c.age, starts, fresh)
			}
		}
	})
}

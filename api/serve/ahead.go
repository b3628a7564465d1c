package serve

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/lookahead"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

const (
	// lookFor bounds how long a look-ahead takes: an answer waits for it. What is not known by then
	// is told as later than the moment that was come to.
	lookFor = time.Second
	// lookEvery is how long what was foreseen for all jobs is shown before it is looked at anew.
	lookEvery = 5 * time.Second
	// lookAtMost is how long it is shown where many ask, and the next look-ahead has to wait for theirs.
	lookAtMost = 30 * time.Second
)

// foresight predicts when jobs start. It asks the leader nothing and writes nothing:
// all that it knows is in the records.
type foresight struct {
	view *view
	turn chan struct{} // one look-ahead at a time: each takes a processor

	mu     sync.Mutex // of what was predicted last
	at     time.Time
	starts map[cluster.JobID]api.PredictedStart
}

func newForesight(v *view) *foresight { return &foresight{view: v, turn: make(chan struct{}, 1)} }

// leads returns by which policy decisions are made, or why that is not known.
func leads(m *record.Mirror) (allocator.Policy, coordinator.Config, string) {
	leader := leaderRecord(m)
	switch {
	case !leader.Exists():
		return nil, coordinator.Config{}, "no coordinator leads, so nothing is decided: start one, or ask again when one leads"
	case leader.Value.Policy == "" || leader.Value.Interval <= 0:
		return nil, coordinator.Config{}, "the coordinator that leads is of an earlier version, which does not tell its policy: upgrade it"
	}
	p, err := policy.ByName(leader.Value.Policy)
	if err != nil {
		return nil, coordinator.Config{}, fmt.Sprintf("the coordinator decides by policy %q, which this agent's version does not have: upgrade the agent", leader.Value.Policy)
	}
	return p, coordinator.Config{Interval: time.Duration(leader.Value.Interval)}.Deciding(p), ""
}

// add adds to jobs that wait when they will start. Where that cannot be said they stay as they are.
func (f *foresight) add(ctx context.Context, list []api.JobStatus) {
	waits := func(s api.JobStatus) bool { // it could start if it had devices
		return s.Workers == 0 && !s.Stopping && (s.Phase == cluster.Queued || s.Phase == cluster.Backoff)
	}
	if !slices.ContainsFunc(list, waits) {
		return
	}
	starts := f.all(ctx)
	for i := range list {
		if s, ok := starts[cluster.JobID(list[i].ID)]; ok && waits(list[i]) {
			list[i].Start = &s
		}
	}
}

// all predicts the start of each job that waits, or repeats what was predicted a moment ago.
func (f *foresight) all(ctx context.Context) map[cluster.JobID]api.PredictedStart {
	if starts, fresh := f.last(); fresh {
		return starts
	}
	wait, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	leave, err := f.enter(wait)
	starts, fresh := f.last()
	if err != nil || fresh { // others were asked before this one, and have answered it, too
		if err == nil {
			leave()
		}
		return starts
	}
	defer leave()
	var q lookahead.Question
	var p allocator.Policy
	if _, err = f.view.read(func(m *record.Mirror) {
		var cfg coordinator.Config
		if p, cfg, _ = leads(m); p != nil {
			q = coordinator.LookAhead(cfg, m, time.Now())
		}
	}); err != nil || p == nil {
		return nil
	}
	foreseen, err := lookahead.Look(q, lookahead.Config{Policy: p, Stop: within(ctx)})
	if err != nil {
		return nil // the leader's log says so: its own questions get the same answer
	}
	shown := make(map[cluster.JobID]api.PredictedStart, len(foreseen))
	for _, s := range foreseen {
		shown[s.Job] = predicted(s)
	}
	f.mu.Lock()
	f.at, f.starts = time.Now(), shown
	f.mu.Unlock()
	return shown
}

// last is what was predicted last, and whether it may be shown still. It is not to be changed.
func (f *foresight) last() (starts map[cluster.JobID]api.PredictedStart, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	age := time.Since(f.at)
	if age > lookAtMost {
		return nil, false
	}
	return f.starts, f.starts != nil && age < lookEvery
}

// enter waits for the turn of a look-ahead, and returns the function that ends it.
func (f *foresight) enter(ctx context.Context) (leave func(), err error) {
	select {
	case f.turn <- struct{}{}:
		return func() { <-f.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// within stops a look-ahead that takes too long, or whose caller has gone.
func within(ctx context.Context) func() bool {
	end := time.Now().Add(lookFor)
	return func() bool { return ctx.Err() != nil || time.Now().After(end) }
}

// predicted is a start as it is shown.
func predicted(s lookahead.Start) api.PredictedStart {
	out := api.PredictedStart{Workers: s.Workers, Never: s.Never}
	if s.Never {
		out.Why = s.Reason
		return out
	}
	for _, x := range []struct {
		from time.Time
		to   **time.Time
	}{{s.At, &out.At}, {s.Low, &out.Low}, {s.High, &out.High}} {
		if !x.from.IsZero() && x.from.Year() < lastYear {
			*x.to = &x.from
		}
	}
	if out.High == nil {
		out.Until = &s.Until
	}
	if out.At == nil {
		out.Workers = 0
	}
	return out
}

package coordinator_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// absurd are numbers that no accepted submit holds, and a record written by hand may.
func absurd() map[string]func(*cluster.Spec, *record.Wanted) {
	return map[string]func(*cluster.Spec, *record.Wanted){
		"bounds":      func(s *cluster.Spec, _ *record.Wanted) { s.MinWorkers, s.MaxWorkers = -1, math.MaxInt },
		"sizes":       func(s *cluster.Spec, _ *record.Wanted) { s.Sizes = []int{0, -4, math.MaxInt} },
		"batch":       func(s *cluster.Spec, _ *record.Wanted) { s.BatchSize = cluster.BatchSize{Min: math.MaxInt, Max: -1} },
		"priority":    func(s *cluster.Spec, _ *record.Wanted) { s.Priority = math.MaxInt },
		"eta":         func(s *cluster.Spec, _ *record.Wanted) { s.ETA, s.Steps = math.MinInt64, -1 },
		"as scaled":   func(_ *cluster.Spec, w *record.Wanted) { w.MinWorkers, w.MaxWorkers = -5, math.MaxInt },
		"scaled down": func(_ *cluster.Spec, w *record.Wanted) { w.MinWorkers, w.MaxWorkers = 8, 2 },
	}
}

// spoiled is a cluster with a job that has such numbers, and a sound one after it.
func spoiled(change func(*cluster.Spec, *record.Wanted)) *lab {
	l := newLab()
	l.thinks = true
	if err := l.node(words{plain: []string{"n1"}, named: map[string]string{"gpus": "2"}}); err != nil {
		panic(err)
	}
	for _, name := range []string{"odd", "sound"} {
		spec := cluster.Spec{
			Name: name, Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c", MinWorkers: 1, MaxWorkers: 2, BatchSize: cluster.BatchSize{Min: 64},
			Steps: 1000, ETA: cluster.Duration(time.Hour),
		}.WithDefaults()
		wanted := record.Wanted{Run: true, At: l.now}
		if name == "odd" {
			change(&spec, &wanted)
		}
		id := jobID(name)
		l.commit(
			record.Put(record.SpecKey(id), record.Submitted{Spec: spec, ID: id, At: l.now, Owner: cluster.Owner{UID: 1000, User: "ann"}}),
			record.Put(record.WantedKey(id), wanted),
			record.Put(record.StateKey(id), record.State{Phase: cluster.Queued, Reason: reason.Of(reason.New(reason.Accepted)), Since: l.now}),
		)
	}
	l.watch()
	return l
}

// A job whose numbers would spoil every decision is held by itself; others run.
func TestAbsurdJobIsHeldByItself(t *testing.T) {
	t.Parallel()
	for name, change := range absurd() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := spoiled(change)
			if s := recorded[record.State](l.mem, record.StateKey(jobID("odd"))); s.Phase != cluster.Held {
				t.Errorf("it is %s: %s", s.Phase, s.Reason)
			}
			if l.slow == nil {
				t.Fatal("no decision is asked for")
			}
			l.decide()
			if s := recorded[record.State](l.mem, record.StateKey(jobID("sound"))); s.Phase != cluster.Starting {
				t.Errorf("the sound job is %s: %s", s.Phase, s.Reason)
			}
		})
	}
}

// No policy is asked about such a job, and each answers for the others.
func TestNumbersOfOneJobSpoilNoDecision(t *testing.T) {
	t.Parallel()
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			for what, change := range absurd() {
				q := spoiled(change).slow
				if q == nil {
					t.Fatalf("%s: no question", what)
				}
				out, err := allocator.Run(p, *q)
				if err != nil || len(out.Decisions) != 1 || out.Decisions[0].Workers == 0 {
					t.Errorf("%s: %+v, %v", what, out.Decisions, err)
				}
			}
		})
	}
}

// A START gets no answer, and its job's records are removed by hand: it can land no
// more, and its devices are free for others.
func TestStartOfAJobThatIsGoneClaimsNothing(t *testing.T) {
	t.Parallel()
	l := newLab()
	play(t, l, `node n1 gpus=1
		think
		submit a workers=1..1`)
	l.holding = true
	play(t, l, "decide")
	late := l.waiting[0]
	l.waiting = nil
	l.step(coordinator.Outcome{Outcome: record.Outcome{ID: late.ID, Result: record.Unknown, Err: errors.New("deadline exceeded")}})
	l.commit(record.DeletePrefix(record.JobPrefix("a-aaaaaa")))
	l.holding = false
	l.reload()
	play(t, l, `submit b workers=1..1
		advance 10s`)
	if l.slow != nil {
		l.decide()
	}
	if s := recorded[record.State](l.mem, record.StateKey("b-aaaaaa")); s.Phase != cluster.Starting {
		t.Errorf("b is %s: %s", s.Phase, s.Reason)
	}
}

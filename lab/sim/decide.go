package sim

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/coordinator"
)

// decide answers the leader's question as its shell does: the policy is asked,
// and its answer checked, by allocator.Run.
func (w *world) decide(in allocator.Input) coordinator.Decided {
	var p allocator.Policy = ruled{w}
	if w.rules == nil {
		p = w.cfg.Policy
	}
	w.result.Decisions++
	var before time.Duration
	if w.cfg.Stopwatch != nil {
		before = w.cfg.Stopwatch()
	}
	out, err := allocator.Run(p, in)
	if w.cfg.Stopwatch != nil {
		w.result.DecisionTimes = append(w.result.DecisionTimes, w.cfg.Stopwatch()-before)
	}
	if err != nil {
		w.result.Rejected++
		w.log.explain(w.now, err.Error(), codeRejected)
		return coordinator.Decided{Err: err}
	}
	for i, d := range out.Decisions {
		if d.Workers != in.Jobs[i].Workers {
			w.log.add(w.now, codeDecided, w.byID[d.Job].ID, in.Jobs[i].Workers, d.Workers)
		}
	}
	return coordinator.Decided{Output: out}
}

// ruled is a policy that says what the rules have decided at this moment.
type ruled struct{ w *world }

// Name implements allocator.Policy.
func (ruled) Name() string { return "rules" }

// Allocate implements allocator.Policy.
func (r ruled) Allocate(in allocator.Input) allocator.Output {
	var out allocator.Output
	for _, v := range in.Jobs {
		out.Decisions = append(out.Decisions, allocator.Decision{Job: v.ID, Workers: r.w.cfg.Rules.Workers(r.w.byID[v.ID].index)})
	}
	return out
}

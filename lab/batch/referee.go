package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/lab/milp"
)

// solvedPolicy is the one policy whose questions other solvers can answer.
const solvedPolicy = "hu"

// referee is another solver that answers hu's questions. All runs share it, one at a time.
type referee struct {
	ctx    context.Context //nolint:containedctx // a policy has none to hand on
	mu     sync.Mutex
	solver milp.Solver
	limit  time.Duration
}

// Reference compares the answers of another solver with those of allocator/solve,
// over all questions of a run; the fields are a contract.
type Reference struct {
	Solver string `json:"solver"`
	// Questions that it answered; Unproved are those of which it did not claim that its answer is optimal.
	Questions int `json:"questions"`
	Unproved  int `json:"unproved"`
	// How often the checker found which plan to be better.
	Equal        int `json:"equal"`
	OursBetter   int `json:"ours_better"`
	TheirsBetter int `json:"theirs_better"`
	// The sums of the values of its plans, and of allocator/solve's for the same questions, by the checker.
	Value    float64 `json:"value"`
	OwnValue float64 `json:"own_value"`
	TookS    float64 `json:"took_s"`

	err error
}

// attach makes the solver answer the run's questions, which are those of hu as published, or in production.
func (f *referee) attach(r *Run, published bool) {
	r.Reference = &Reference{Solver: f.solver.Name()}
	r.config.Policy = f.policyWith(r.Reference, published)
	r.config.Check = func() error { return f.check(r.Reference) }
}

// check ends a run whose solver has failed, or that is interrupted.
func (f *referee) check(r *Reference) error {
	if r.err != nil {
		return r.err
	}
	return f.ctx.Err()
}

// policyWith is policy hu with this solver, which counts into r. An error of the
// solver is kept, and check ends the run with it at the same moment.
func (f *referee) policyWith(r *Reference, published bool) allocator.Policy {
	return policy.Hu(policy.HuOptions{Published: published, Solver: func(p *solve.Problem, o solve.Options) (solve.Result, error) {
		var own solve.Solver
		mine, err := own.Solve(p, o)
		if err != nil || len(p.Jobs) == 0 || r.err != nil {
			return mine, err
		}
		theirs, err := f.answer(p, mine, r)
		if err != nil {
			r.err = fmt.Errorf("--solver %s: %w", f.solver.Name(), err)
			return mine, nil
		}
		return theirs, nil
	}})
}

func (f *referee) answer(p *solve.Problem, mine solve.Result, r *Reference) (solve.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st, err := milp.State(p, milp.Tight)
	if err != nil {
		return solve.Result{}, err
	}
	ref, err := milp.Refer(f.ctx, f.solver, st, f.limit)
	if errors.Is(err, milp.ErrNoPlan) {
		return solve.Result{}, fmt.Errorf("%w (--solver-limit)", err)
	}
	if err != nil {
		return solve.Result{}, err
	}
	verdict, err := milp.Compare(p, mine, ref)
	if err != nil {
		return solve.Result{}, err
	}
	r.Questions++
	if !ref.Optimal {
		r.Unproved++
	}
	switch verdict {
	case milp.Equal:
		r.Equal++
	case milp.Ours:
		r.OursBetter++
	case milp.Theirs:
		r.TheirsBetter++
	}
	r.Value += ref.Value
	r.OwnValue += mine.Value
	r.TookS += ref.Took.Seconds()
	return solve.Result{Plan: ref.Plan, Value: ref.Value, Bound: mine.Bound, Proved: mine.Proved && verdict == milp.Equal}, nil
}

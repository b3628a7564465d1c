// Package referee has other solvers answer the questions of policy hu in a
// simulation, and compares each answer with that of allocator/solve.
//
// It promises that a solver that fails, or is interrupted, ends the run with its
// error, and that no answer counts which the checker (lab/milp) has not valued.
package referee

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/milp"
)

// referee is another solver that answers hu's questions. All runs share it, one at a time.
type referee struct {
	ctx    context.Context //nolint:containedctx // a policy has none to hand on
	mu     sync.Mutex
	solver milp.Solver
	limit  time.Duration
}

// Open opens a solver by its name: see milp.CheckName. It may be a process, and is to be closed. ctx ends all runs.
func Open(ctx context.Context, name string, limit time.Duration) (batch.Solver, error) {
	solver, err := milp.Open(name)
	if err != nil {
		return nil, err
	}
	return New(ctx, solver, limit), nil
}

// New is Open for a solver that is open.
func New(ctx context.Context, solver milp.Solver, limit time.Duration) batch.Solver {
	return &referee{ctx: ctx, solver: solver, limit: limit}
}

// Name is the solver's.
func (f *referee) Name() string { return f.solver.Name() }

// Close ends the solver.
func (f *referee) Close() error { return f.solver.Close() }

// Check ends a run whose solver has failed, or that is interrupted.
func (f *referee) Check(r *batch.Reference) error {
	if r.Err != nil {
		return r.Err
	}
	return f.ctx.Err()
}

// Policy is policy hu with this solver, which counts into r. An error of the
// solver is kept, and Check ends the run with it at the same moment.
func (f *referee) Policy(r *batch.Reference, published bool) allocator.Policy {
	return policy.Hu(policy.HuOptions{Published: published, Solver: func(p *solve.Problem, o solve.Options) (solve.Result, error) {
		var own solve.Solver
		mine, err := own.Solve(p, o)
		if err != nil || len(p.Jobs) == 0 || r.Err != nil {
			return mine, err
		}
		theirs, err := f.answer(p, mine, r)
		if err != nil {
			r.Err = fmt.Errorf("--solver %s: %w", f.solver.Name(), err)
			return mine, nil
		}
		return theirs, nil
	}})
}

func (f *referee) answer(p *solve.Problem, mine solve.Result, r *batch.Reference) (solve.Result, error) {
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

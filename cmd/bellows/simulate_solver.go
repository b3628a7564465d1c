package main

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

// solved is the one policy whose questions other solvers can answer.
const solved = "hu"

// checkSolver finds what --solver cannot be used with.
func (s *simulation) checkSolver(demand func(ok bool, format string, args ...any)) {
	r := reference{solver: s.solver, model: string(milp.Tight), limit: time.Second}
	if err := r.check(); err != nil {
		demand(false, "%w", err)
		return
	}
	demand(s.solverLimit > 0, "--solver-limit %v: use a positive time", s.solverLimit)
	if s.solver == solverOwn {
		return
	}
	for _, p := range s.policies {
		demand(p == solved, "--solver %s: only policy %s asks a solver, and --policy names %s: run that without it", s.solver, solved, p)
	}
	demand(ruleSets()[s.rules].policies == nil, "--solver %s: --rules %s makes decisions of its own", s.solver, s.rules)
}

// openSolver finds the solver that answers in our own's place.
func (s *simulation) openSolver(ctx context.Context) error {
	r := reference{solver: s.solver}
	solver, err := r.open()
	if err != nil {
		return err
	}
	s.referee = &referee{ctx: ctx, solver: solver, limit: s.solverLimit}
	return nil
}

// referee is another solver that answers hu's questions. All runs share it, one at a time.
type referee struct {
	ctx    context.Context //nolint:containedctx // a policy has none to hand on
	mu     sync.Mutex
	solver milp.Solver
	limit  time.Duration
}

// refereed is what came of a run's questions; the fields are a contract.
type refereed struct {
	Solver string `json:"solver"`
	// Questions that it answered; of them, those of which it did not claim that its answer is optimal.
	Questions int `json:"questions"`
	Unproved  int `json:"unproved"`
	// Whose plan the checker found the better one, how often.
	Equal        int `json:"equal"`
	OursBetter   int `json:"ours_better"`
	TheirsBetter int `json:"theirs_better"`
	// The sums of the values of its plans and of ours for the same questions, by the checker.
	Value    float64 `json:"value"`
	OwnValue float64 `json:"own_value"`
	TookS    float64 `json:"took_s"`

	err error
}

// check ends a run whose solver has failed, or that somebody has interrupted.
func (f *referee) check(r *refereed) error {
	if r.err != nil {
		return r.err
	}
	return f.ctx.Err()
}

// policyWith is policy hu with this solver, which counts into r. An error of the
// solver is kept, and ends the run at the same moment.
func (f *referee) policyWith(r *refereed) allocator.Policy {
	r.Solver = f.solver.Name()
	return policy.Hu(func(p *solve.Problem, o solve.Options) (solve.Result, error) {
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
	})
}

func (f *referee) answer(p *solve.Problem, mine solve.Result, r *refereed) (solve.Result, error) {
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

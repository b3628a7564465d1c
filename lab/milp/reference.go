package milp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bellows-ml/bellows/allocator/solve"
)

// Solver solves models, one at a time.
type Solver interface {
	// Name is what people choose it by.
	Name() string
	// Solve looks for the values that make the objective largest, at most for
	// the limit, and returns the best it has found. It is ErrInfeasible that
	// there are no values, and ErrNoPlan that none were found in time. When
	// Solve returns, also because ctx is done, nothing of it runs any more.
	Solve(ctx context.Context, m *Model, limit time.Duration) (Answer, error)
	// Close frees what the solver holds; no Solve may be running.
	Close() error
}

// Answer is what a solver says. Nothing in it is checked.
type Answer struct {
	Values  []float64 // one for each column
	Optimal bool      // it claims that no values are better
	Took    time.Duration
}

// The reasons why a solver has no answer.
var (
	ErrInfeasible = errors.New("the model is infeasible")
	ErrNoPlan     = errors.New("no plan was found within the limit: give it more time")
)

// grace is how long a solver may take beyond its limit to say what it has, after which it is ended.
const grace = 10 * time.Second

// Reference is a solver's plan, checked.
type Reference struct {
	Plan    solve.Plan
	Value   float64       // of the plan's counts, by solve.Eval
	Optimal bool          // the solver claims that there is no better plan
	Took    time.Duration // by the solver
}

// Refer has the problem, as f states it, solved by another solver and checks the answer.
func Refer(ctx context.Context, s Solver, st *Statement, limit time.Duration) (Reference, error) {
	answer, err := s.Solve(ctx, st.Model, limit)
	if err != nil {
		return Reference{}, fmt.Errorf("solve the %s model by %s: %w", st.Model.Name, s.Name(), err)
	}
	ref := Reference{Optimal: answer.Optimal, Took: answer.Took}
	if ref.Plan, err = st.Plan(answer.Values); err == nil {
		ref.Value, err = solve.Eval(st.p, ref.Plan)
	}
	if err != nil {
		return Reference{}, fmt.Errorf("check what %s found for the %s model: %w", s.Name(), st.Model.Name, err)
	}
	return ref, nil
}

// same is how near two values are equal, relative to them: what solvers leave of a gap that they call none.
const same = 1e-6

// Verdict says whose plan is better.
type Verdict string

// The verdicts.
const (
	Equal  Verdict = "equal"
	Ours   Verdict = "ours is better"
	Theirs Verdict = "theirs is better"
)

// Compare values both plans again and says which is the better one. That ours
// is better than what a solver claims to be optimal is a verdict, not an error:
// such claims have been wrong, and the checker has the last word. That theirs
// is better than our bound, or than what we have proved, is an error: ours.
func Compare(p *solve.Problem, ours solve.Result, ref Reference) (Verdict, error) {
	mine, err := solve.Eval(p, ours.Plan)
	if err != nil {
		return "", fmt.Errorf("check our plan: %w", err)
	}
	theirs, err := solve.Eval(p, ref.Plan)
	if err != nil {
		return "", fmt.Errorf("check the reference's plan: %w", err)
	}
	near := same * math.Max(1, math.Abs(theirs))
	switch {
	case theirs > ours.Bound+near:
		return "", fmt.Errorf("compare: the reference's plan is worth %v, more than the certified bound %v: the bound is wrong", theirs, ours.Bound)
	case ours.Proved && theirs > mine+near:
		return "", fmt.Errorf("compare: the reference's plan is worth %v, and ours, proved optimal, %v: the proof is wrong", theirs, mine)
	case mine > theirs+near:
		return Ours, nil
	case theirs > mine+near:
		return Theirs, nil
	}
	return Equal, nil
}

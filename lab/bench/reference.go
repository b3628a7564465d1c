package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/lab/milp"
)

// Compared is what an answer of another solver says besides.
type Compared struct {
	Solver  string       `json:"solver"`
	Model   string       `json:"model"`
	TookS   float64      `json:"took_s"`
	Own     OwnAnswer    `json:"own"`
	Verdict milp.Verdict `json:"verdict"`
}

// OwnAnswer is what allocator/solve found for the same problem.
type OwnAnswer struct {
	Objective float64 `json:"objective"`
	Bound     float64 `json:"bound"`
	Proved    bool    `json:"proved"`
}

// writeModel writes the problem in the LP format.
func (o *Options) writeModel(p *solve.Problem) error {
	st, err := milp.State(p, milp.Formulation(o.Model))
	if err != nil {
		return err
	}
	f, err := os.Create(o.WriteModel)
	if err != nil {
		return err
	}
	if err := errors.Join(st.Model.WriteLP(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(o.WriteModel))
	}
	return nil
}

// refer asks the other solver and compares its last answer with that of
// allocator/solve. A signal ends it.
func (o *Options) refer(ctx context.Context, p *solve.Problem) (a Answer, err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	st, err := milp.State(p, milp.Formulation(o.Model))
	if err != nil {
		return Answer{}, err
	}
	solver, err := milp.Open(o.Solver)
	if err != nil {
		return Answer{}, err
	}
	defer func() { err = errors.Join(err, solver.Close()) }()
	var s solve.Solver
	own, err := s.Solve(p, solve.Options{}) // while HiGHS is being compiled
	if err != nil {
		return Answer{}, err
	}
	var ref milp.Reference
	for range o.Repeat {
		if ref, err = milp.Refer(ctx, solver, st, o.Limit); err != nil {
			return Answer{}, err
		}
	}
	verdict, err := milp.Compare(p, own, ref)
	if err != nil {
		return Answer{}, fmt.Errorf("%s, %s model: %w", o.Solver, o.Model, err)
	}
	return Answer{
		Plan: rows(p, ref.Plan), Objective: ref.Value, Bound: own.Bound, Proved: ref.Optimal && verdict != milp.Ours,
		Compared: &Compared{
			Solver: o.Solver, Model: o.Model, TookS: ref.Took.Seconds(), Verdict: verdict,
			Own: OwnAnswer{Objective: own.Value, Bound: own.Bound, Proved: own.Proved},
		},
	}, nil
}

// rows are the counts of a plan by job and step.
func rows(p *solve.Problem, plan solve.Plan) [][]int {
	rows := make([][]int, 0, len(p.Jobs))
	for i := range p.Jobs {
		rows = append(rows, plan[i*p.Steps:(i+1)*p.Steps])
	}
	return rows
}

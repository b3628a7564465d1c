package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/milp"
)

// The values of --solver.
const (
	solverOwn   = "own"
	solverHiGHS = "highs"
	solverCBC   = "cbc"
)

// reference is how another solver is asked.
type reference struct {
	solver string
	model  string
	limit  time.Duration
	write  string
}

// compared is what an answer of another solver says besides.
type compared struct {
	Solver  string       `json:"solver"`
	Model   string       `json:"model"`
	TookS   float64      `json:"took_s"`
	Own     ownAnswer    `json:"own"`
	Verdict milp.Verdict `json:"verdict"`
}

// ownAnswer is what our solver found for the same problem.
type ownAnswer struct {
	Objective float64 `json:"objective"`
	Bound     float64 `json:"bound"`
	Proved    bool    `json:"proved"`
}

func (r *reference) check() error {
	switch {
	case r.solver != solverOwn && r.solver != solverHiGHS && r.solver != solverCBC:
		return fault.Usage("--solver %q: use %s, %s or %s", r.solver, solverOwn, solverHiGHS, solverCBC)
	case r.model != string(milp.Tight) && r.model != string(milp.Paper):
		return fault.Usage("--model %q: use %s or %s", r.model, milp.Tight, milp.Paper)
	case r.limit <= 0:
		return fault.Usage("--limit %s: use a positive time", r.limit)
	}
	return nil
}

// open finds the solver; what is missing is an error that says how to get it.
func (r *reference) open() (milp.Solver, error) {
	if r.solver == solverCBC {
		return milp.OpenCBC()
	}
	dir, err := milp.CacheDir()
	if err != nil {
		return nil, err
	}
	return milp.OpenHiGHS(dir)
}

// writeModel writes the problem as --write-model wants it.
func (r *reference) writeModel(p *solve.Problem) error {
	st, err := milp.State(p, milp.Formulation(r.model))
	if err != nil {
		return err
	}
	f, err := os.Create(r.write)
	if err != nil {
		return err
	}
	if err := errors.Join(st.Model.WriteLP(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(r.write))
	}
	return nil
}

// solve has the other solver answer, as often as is wanted, and compares its
// last answer with ours. Ctrl-C ends it.
func (r *reference) solve(ctx context.Context, p *solve.Problem, repeat int) (a answer, err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	st, err := milp.State(p, milp.Formulation(r.model))
	if err != nil {
		return answer{}, err
	}
	solver, err := r.open()
	if err != nil {
		return answer{}, err
	}
	defer func() { err = errors.Join(err, solver.Close()) }()
	var s solve.Solver
	own, err := s.Solve(p, solve.Options{}) // while HiGHS is being compiled
	if err != nil {
		return answer{}, err
	}
	var ref milp.Reference
	for range repeat {
		if ref, err = milp.Refer(ctx, solver, st, r.limit); err != nil {
			return answer{}, err
		}
	}
	verdict, err := milp.Compare(p, own, ref)
	if err != nil {
		return answer{}, fmt.Errorf("%s, %s model: %w", r.solver, r.model, err)
	}
	return answer{
		Plan: rows(p, ref.Plan), Objective: ref.Value, Bound: own.Bound, Proved: ref.Optimal && verdict != milp.Ours,
		compared: &compared{
			Solver: r.solver, Model: r.model, TookS: ref.Took.Seconds(), Verdict: verdict,
			Own: ownAnswer{Objective: own.Value, Bound: own.Bound, Proved: own.Proved},
		},
	}, nil
}

// rows are a plan's counts by job and step.
func rows(p *solve.Problem, plan solve.Plan) [][]int {
	rows := make([][]int, 0, len(p.Jobs))
	for i := range p.Jobs {
		rows = append(rows, plan[i*p.Steps:(i+1)*p.Steps])
	}
	return rows
}

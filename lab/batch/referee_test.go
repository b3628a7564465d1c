package batch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/milp"
	"github.com/bellows-ml/bellows/lab/referee"
	"github.com/bellows-ml/bellows/lab/sim"
)

// crowd are settings for a small crowd of jobs.
func crowd(t *testing.T, solver string) *batch.Settings {
	t.Helper()
	var b strings.Builder
	b.WriteString("job_id,submit_s,gpus,duration_s,model,batch_size,iterations,deadline_s,vc\n")
	for i := range 14 {
		fmt.Fprintf(&b, "j%d,%d,%d,%d,,,,,\n", i, 40*i, 1<<(i%3), 400+300*(i*i%11))
	}
	name := filepath.Join(t.TempDir(), "jobs.csv")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &batch.Settings{
		Lab:    everything,
		Traces: []string{name}, Policies: []string{"hu"}, Nodes: []int{9}, DevicesPerNode: 1,
		Timing: batch.Timing{Interval: 5 * time.Minute, RescaleCost: 30 * time.Second, CheckpointEvery: 30 * time.Minute},
		Model:  sim.Model{MaxWorkers: 16, Seed: 1}, Solver: solver, SolverLimit: time.Minute,
	}
	if err := s.Complete(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	return s
}

// The reference answers every question instead of allocator/solve, and the checker
// finds none of its plans better for the same question.
func TestReferenceSolversFindNothingBetter(t *testing.T) {
	wholeSimulations(t)
	own, err := crowd(t, batch.OwnSolver).Do(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{milp.NameHiGHS, milp.NameCBC} {
		runs, err := crowd(t, name).Do(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ref := runs[0].Reference
		if ref == nil || ref.Solver != name || ref.Questions < 14 || ref.Unproved != 0 || ref.Equal+ref.OursBetter != ref.Questions {
			t.Fatalf("%+v", ref)
		}
		if ref.Value > ref.OwnValue*(1+1e-6) {
			t.Errorf("%s: its plans are worth %v in all, those of allocator/solve %v", name, ref.Value, ref.OwnValue)
		}
		if runs[0].Finished != own[0].Finished {
			t.Errorf("%s: %d jobs finished, with allocator/solve %d", name, runs[0].Finished, own[0].Finished)
		}
	}
}

// refuses is a solver that has no answer.
type refuses struct{ err error }

func (refuses) Name() string { return "cbc" }
func (refuses) Close() error { return nil }
func (r refuses) Solve(context.Context, *milp.Model, time.Duration) (milp.Answer, error) {
	return milp.Answer{}, r.err
}

func TestASolverThatFailsEndsTheRun(t *testing.T) {
	for fails, want := range map[error]string{
		milp.ErrNoPlan:            "give it more time (--solver-limit)",
		errors.New("out of room"): "out of room",
	} {
		runs, err := crowd(t, batch.OwnSolver).RunsWith(referee.New(t.Context(), refuses{fails}, time.Second))
		if err != nil {
			t.Fatal(err)
		}
		got := runs[0].Run()
		if got == nil || !strings.Contains(got.Error(), "simulate: at 0s: --solver cbc: solve the tight model by cbc: ") || !strings.Contains(got.Error(), want) {
			t.Errorf("%v", got)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	runs, err := crowd(t, batch.OwnSolver).RunsWith(referee.New(ctx, refuses{ctx.Err()}, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := runs[0].Run(); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

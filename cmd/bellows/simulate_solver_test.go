package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/bellows-ml/bellows/lab/milp"
)

// simulated runs simulate with a small crowd of jobs.
func simulateCrowd(t *testing.T, args ...string) (*simulation, []*simulated, error) {
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
	var s simulation
	f := pflag.NewFlagSet("simulate", pflag.ContinueOnError)
	s.flags(f)
	err := f.Parse(append([]string{"--trace", name, "--nodes", "9", "--policy", "hu"}, args...))
	if err == nil {
		err = s.check(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.run(t.Context())
	return &s, runs, err
}

// The reference answers every question in our solver's place, and the checker
// finds none of its plans better than ours for the same question.
func TestReferenceSolversFindNothingBetter(t *testing.T) {
	_, own, err := simulateCrowd(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{solverHiGHS, solverCBC} {
		_, runs, err := simulateCrowd(t, "--solver", name)
		if err != nil {
			t.Fatal(err)
		}
		ref := runs[0].Reference
		if ref == nil || ref.Solver != name || ref.Questions < 14 || ref.Unproved != 0 || ref.Equal+ref.OursBetter != ref.Questions {
			t.Fatalf("%+v", ref)
		}
		if ref.Value > ref.OwnValue*(1+1e-6) {
			t.Errorf("%s: its plans are worth %v in all, and ours %v", name, ref.Value, ref.OwnValue)
		}
		if runs[0].Finished != own[0].Finished {
			t.Errorf("%s: %d jobs finished, with our own solver %d", name, runs[0].Finished, own[0].Finished)
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
	for err, want := range map[error]string{
		milp.ErrNoPlan:            "give it more time (--solver-limit)",
		errors.New("out of room"): "out of room",
	} {
		s, runs, _ := simulateCrowd(t)
		s.referee = &referee{ctx: t.Context(), solver: refuses{err}, limit: time.Second}
		r := runs[0]
		r.Reference = &refereed{}
		r.config.Policy = s.referee.policyWith(r.Reference)
		r.config.Check = func() error { return s.referee.check(r.Reference) }
		got := r.run()
		if got == nil || !strings.Contains(got.Error(), "simulate: at 0s: --solver cbc: solve the tight model by cbc: ") || !strings.Contains(got.Error(), want) {
			t.Errorf("%v", got)
		}
	}
	s, runs, _ := simulateCrowd(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.referee = &referee{ctx: ctx, solver: refuses{ctx.Err()}, limit: time.Second}
	r := runs[0]
	r.Reference = &refereed{}
	r.config.Check = func() error { return s.referee.check(r.Reference) }
	if err := r.run(); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

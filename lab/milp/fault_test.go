package milp_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/lab/milp"
)

// TestInfeasible gives every solver a model without values.
func TestInfeasible(t *testing.T) {
	m := &milp.Model{Name: "nothing", Columns: []milp.Column{{Name: "x", Objective: 1, Upper: 4, Integer: true}, {Name: "y", Objective: 1, Upper: 4, Integer: true}}, Rows: []milp.Row{
		{Name: "more", Sense: milp.AtLeast, Limit: 5, Terms: []milp.Term{{Column: 0, Coef: 1}, {Column: 1, Coef: 1}}},
		{Name: "less", Sense: milp.AtMost, Limit: 4, Terms: []milp.Term{{Column: 0, Coef: 1}, {Column: 1, Coef: 1}}},
	}}
	for _, s := range open(t) {
		if _, err := s.Solve(t.Context(), m, patience); !errors.Is(err, milp.ErrInfeasible) {
			t.Errorf("%s: %v", s.Name(), err)
		}
	}
}

// hard is a problem whose paper model takes any solver far longer than the limits
// of these tests, the longer the more jobs.
func hard(t *testing.T, jobs int) *milp.Statement {
	t.Helper()
	st, err := milp.State(random(2, jobs, jobs*4/3, 5, []int{1, 2, 4, 8, 16}), milp.Paper)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestLimit stops every solver before it is done: it has a plan that it does
// not call optimal, or says that it has none.
func TestLimit(t *testing.T) {
	st := hard(t, 50)
	for _, s := range open(t) {
		ref, err := milp.Refer(t.Context(), s, st, 2*time.Second)
		switch {
		case errors.Is(err, milp.ErrNoPlan):
		case err != nil:
			t.Errorf("%s: %v", s.Name(), err)
		case ref.Optimal || ref.Value <= 0:
			t.Errorf("%s: %+v", s.Name(), ref)
		}
	}
}

// TestCancelled ends every solver from outside while it works.
func TestCancelled(t *testing.T) {
	st := hard(t, 150)
	files := t.TempDir()
	t.Setenv("TMPDIR", files)
	gone := errors.New("the user has had enough")
	for _, s := range open(t) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(time.Second, func() { cancel(gone) })
		_, err := s.Solve(ctx, st.Model, time.Hour)
		stop.Stop()
		if !errors.Is(err, gone) {
			t.Errorf("%s: %v", s.Name(), err)
		}
	}
	if left, _ := os.ReadDir(files); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWrongModule(t *testing.T) {
	dir := t.TempDir()
	if _, err := milp.OpenHiGHS(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "scripts/setup solver") {
		t.Errorf("missing: %v", err)
	}
	name := filepath.Join(dir, "highs-1.15.3.wasm")
	if err := os.WriteFile(name, []byte("\x00asm\x01\x00\x00\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := milp.OpenHiGHS(dir); err == nil || !strings.Contains(err.Error(), "SHA-256 of "+name) || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("another: %v", err)
	}
}

// TestBadCBC puts executables named cbc on PATH that do not do what they should.
func TestBadCBC(t *testing.T) {
	m := &milp.Model{Name: "one", Columns: []milp.Column{{Name: "x", Objective: 1, Upper: 4}}}
	answer := func(text string) string { return "printf '" + text + "' >\"${@: -2:1}\"\n" }
	for _, c := range []struct{ name, script, want string }{
		{"missing", "", "apt-get install coinor-cbc"},
		{"fails", "echo no such option; exit 3\n", `exit status 3: its last words: "no such option"`},
		{"killed", "kill -9 $$\n", "signal: killed"},
		{"says nothing", "exit 0\n", "it wrote none"},
		{"empty", answer(""), "the file is empty"},
		{"unbounded", answer(`Unbounded - objective value 0\n`), `it ended with "Unbounded`},
		{"no plan", answer(`Stopped on time (no integer solution - continuous used) - objective value 1\n`), "give it more time"},
		{"another variable", answer(`Optimal - objective value 4\n 0 y 4 0\n`), "0 y 4 0\" is no value"},
		{"no number", answer(`Optimal - objective value 4\n 0 x four 0\n`), "is no value of a variable"},
		{"torn", answer(`Optimal - objective value 4\n 0 x`), "is no variable'\\''s line"},
	} {
		dir := t.TempDir()
		t.Setenv("PATH", dir)
		if c.script != "" {
			// Interpreters by their full names: PATH has nothing else.
			if err := os.WriteFile(filepath.Join(dir, "cbc"), []byte("#!/bin/bash\n"+c.script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		s, err := milp.OpenCBC()
		if err == nil {
			_, err = s.Solve(t.Context(), m, patience)
		}
		if want := strings.ReplaceAll(c.want, `'\''`, `'`); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want …%s…", c.name, err, want)
		}
	}
}

// TestCBCOutOfTime runs a cbc that calls every model infeasible. That counts only
// if it had time left: cbc says the same when its time ends in the first relaxation.
func TestCBCOutOfTime(t *testing.T) {
	m := &milp.Model{Name: "one", Columns: []milp.Column{{Name: "x", Objective: 1, Upper: 4}}}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	script := "#!/bin/bash\n/bin/sleep 0.1\nprintf 'Infeasible - objective value 0\\n' >\"${@: -2:1}\"\n"
	if err := os.WriteFile(filepath.Join(dir, "cbc"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := milp.OpenCBC()
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[time.Duration]error{50 * time.Millisecond: milp.ErrNoPlan, time.Hour: milp.ErrInfeasible} {
		if _, err := s.Solve(t.Context(), m, limit); !errors.Is(err, want) {
			t.Errorf("with a limit of %v: %v, want %v", limit, err, want)
		}
	}
}

// TestCompare checks the verdicts on plans whose values are known.
func TestCompare(t *testing.T) {
	p := &solve.Problem{Devices: 3, Steps: 1, Step: 1, Counts: []int{1, 2}, Jobs: []solve.Job{
		{Work: 4, Min: 1, Max: 2, Speeds: []float64{1, 1.6}}, {Work: 2, Min: 1, Max: 2, Speeds: []float64{1, 1.1}},
	}}
	good, bad := solve.Plan{2, 1}, solve.Plan{1, 2} // 0.9 and 0.8
	for _, c := range []struct {
		name string
		ours solve.Result
		plan solve.Plan
		want milp.Verdict
		err  string
	}{
		{"the same", solve.Result{Plan: good, Bound: 0.9, Proved: true}, good, milp.Equal, ""},
		{"a wrong claim of the solver's", solve.Result{Plan: good, Bound: 0.9, Proved: true}, bad, milp.Ours, ""},
		{"not found by us", solve.Result{Plan: bad, Bound: 1}, good, milp.Theirs, ""},
		{"a wrong proof", solve.Result{Plan: bad, Bound: 1, Proved: true}, good, "", "the proof is wrong"},
		{"a wrong bound", solve.Result{Plan: bad, Bound: 0.8}, good, "", "the bound is wrong"},
		{"not a plan", solve.Result{Plan: solve.Plan{2, 2}, Bound: 1}, good, "", "check our plan"},
		{"not a plan of theirs", solve.Result{Plan: good, Bound: 1}, solve.Plan{2, 2}, "", "check the reference's plan"},
	} {
		got, err := milp.Compare(p, c.ours, milp.Reference{Plan: c.plan, Value: 7, Optimal: true})
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// liar claims that values of its choice are optimal.
type liar struct{ values []float64 }

func (liar) Name() string { return "liar" }
func (liar) Close() error { return nil }
func (l liar) Solve(context.Context, *milp.Model, time.Duration) (milp.Answer, error) {
	return milp.Answer{Values: l.values, Optimal: true}, nil
}

// TestLiars refuses what a solver calls optimal and is no plan at all.
func TestLiars(t *testing.T) {
	p := &solve.Problem{Devices: 3, Steps: 1, Step: 1, Counts: []int{1, 2}, Jobs: []solve.Job{{Work: 4, Min: 1, Max: 2, Speeds: []float64{1, 1.6}}}}
	nan := slices.Repeat([]float64{math.NaN()}, 8)
	for _, f := range []milp.Formulation{milp.Paper, milp.Tight} {
		st, err := milp.State(p, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, values := range [][]float64{nil, nan[:len(st.Model.Columns)], make([]float64, len(st.Model.Columns))} {
			if ref, err := milp.Refer(t.Context(), liar{values}, st, patience); err == nil {
				t.Errorf("%s model, %v: accepted as %+v", f, values, ref)
			}
		}
	}
}

func TestLPFile(t *testing.T) {
	p := &solve.Problem{Devices: 2, Steps: 1, Step: 2, Counts: []int{0, 2}, Jobs: []solve.Job{{Work: 3, Min: 0, Max: 2, Speeds: []float64{0, 1.7}}}}
	st, err := milp.State(p, milp.Tight)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := st.Model.WriteLP(&b); err != nil {
		t.Fatal(err)
	}
	const want = `\ tight
Maximize
 obj: + 0.6666666666666666 s_0_1
Subject To
 cap_1: + 2 x_0_2_1 <= 2
 one_0_1: + 1 x_0_0_1 + 1 x_0_2_1 = 1
 srv_0_1: + 1 s_0_1 - 1.7 x_0_2_1 <= 0
Bounds
 0 <= s_0_1 <= 1.5
 0 <= x_0_0_1 <= 1
 0 <= x_0_2_1 <= 1
Generals
 x_0_0_1
 x_0_2_1
End
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
	if err := st.Model.WriteLP(full{}); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "write model tight") {
		t.Errorf("on a full disk: %v", err)
	}
}

var errFull = errors.New("no space left on device")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

package milp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/solve"
)

// values are the model's values of a plan, one for each column: the inverse of Plan.
func (s *Statement) values(plan solve.Plan) ([]float64, error) {
	if len(plan) != len(s.plan) {
		return nil, fmt.Errorf("state the plan: %d counts for %d jobs in %d steps", len(plan), len(s.p.Jobs), s.p.Steps)
	}
	values := make([]float64, len(s.Model.Columns))
	for i := range s.p.Jobs {
		j := &s.p.Jobs[i]
		low, work, done := slices.Index(s.p.Counts, j.Min), j.Work/s.p.Step, 0.0
		for t := range s.p.Steps {
			n := i*s.p.Steps + t
			q := slices.Index(s.p.Counts, plan[n])
			if q < low {
				return nil, fmt.Errorf("state the plan: job %d cannot have %d devices", i, plan[n])
			}
			done = min(work, done+j.Speeds[q])
			c := s.plan[n]
			values[c-1] = done
			if s.f == Tight {
				values[c+q-low] = 1
				continue
			}
			values[c] = float64(plan[n])
			for k, count := range s.p.Counts {
				values[c+1+2*k] = indicator(plan[n] <= count)
				values[c+2+2*k] = indicator(plan[n] >= count)
			}
		}
	}
	return values, nil
}

// objective is the objective at the values, one for each column.
func (m *Model) objective(values []float64) float64 {
	total := 0.0
	for c := range m.Columns {
		total += m.Columns[c].Objective * values[c]
	}
	return total
}

// check reports the first bound, row or integrality that the values, one for
// each column, are off by more than the tolerance, which for a row is relative
// to its largest coefficient.
func (m *Model) check(values []float64, tolerance float64) error {
	if len(values) != len(m.Columns) {
		return fmt.Errorf("%d values: the model has %d columns", len(values), len(m.Columns))
	}
	for c := range m.Columns {
		x, v := &m.Columns[c], values[c]
		switch {
		case !(v >= x.Lower-tolerance && v <= x.Upper+tolerance):
			return fmt.Errorf("%s = %v is not from %v to %v", x.Name, v, x.Lower, x.Upper)
		case x.Integer && math.Abs(v-math.Round(v)) > tolerance:
			return fmt.Errorf("%s = %v is not a whole number", x.Name, v)
		}
	}
	for n := range m.Rows {
		r := &m.Rows[n]
		sum, largest := 0.0, 1.0
		for _, t := range r.Terms {
			sum += t.Coef * values[t.Column]
			largest = max(largest, math.Abs(t.Coef))
		}
		lower, upper := r.bounds()
		if off := tolerance * largest; !(sum >= lower-off && sum <= upper+off) {
			return fmt.Errorf("%s: %v is not %s %v", r.Name, sum, r.Sense, r.Limit)
		}
	}
	return nil
}

func small(seed uint64) *solve.Problem {
	r := rand.New(rand.NewPCG(seed, 3))
	counts := [][]int{{1, 2, 4, 8}, {0, 1, 2, 4}, {0, 2, 6}, {3}}[seed%4]
	p := &solve.Problem{Devices: 1 << 20, Steps: 1 + int(seed%5), Step: 300, Counts: counts}
	for i := range 4 {
		low := r.IntN(len(counts))
		j := solve.Job{Work: 60 + 5000*r.Float64(), Min: counts[low], Max: counts[low+r.IntN(len(counts)-low)]}
		if i%2 == 1 {
			j.Present, j.Bonus = j.Max, 0.25
		}
		v := r.Float64()
		for range counts {
			j.Speeds = append(j.Speeds, v)
			v += 2 * r.Float64()
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// TestPlansAreSolutions states random plans in the model's terms: they satisfy
// it, are worth what they are worth, and are read back. Plans with a count that
// a job may not have, or too many devices, do not satisfy it.
func TestPlansAreSolutions(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		p := small(seed)
		plan := make(solve.Plan, 0, len(p.Jobs)*p.Steps)
		use := make([]int, p.Steps)
		for i := range p.Jobs {
			for s := range p.Steps {
				low, high := slices.Index(p.Counts, p.Jobs[i].Min), slices.Index(p.Counts, p.Jobs[i].Max)
				plan = append(plan, p.Counts[low+r.IntN(high+1-low)])
				use[s] += plan[len(plan)-1]
			}
		}
		p.Devices = slices.Max(use)
		want, err := solve.Eval(p, plan)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []Formulation{Paper, Tight} {
			st, err := State(p, f)
			if err != nil {
				t.Fatal(err)
			}
			values, err := st.values(plan)
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Model.check(values, 1e-9); err != nil {
				t.Errorf("seed %d, %s: plan %v: %v", seed, f, plan, err)
			}
			constant := 0.0 // of the paper's formulation, in which one of two variables is 1 whatever the count
			for _, j := range p.Jobs {
				constant += j.Bonus * indicator(f == Paper)
			}
			if got := st.Model.objective(values); math.Abs(got-want-constant) > 1e-9 {
				t.Errorf("seed %d, %s: worth %v, want %v", seed, f, got, want+constant)
			}
			if back, err := st.Plan(values); err != nil || !slices.Equal(back, plan) {
				t.Errorf("seed %d, %s: %v was read back as %v, %v", seed, f, plan, back, err)
			}
			st.Model.Rows[0].Limit = float64(use[0]) - 1
			if err := st.Model.check(values, 1e-9); err == nil || !strings.HasPrefix(err.Error(), "cap_1") {
				t.Errorf("seed %d, %s: one device too few: %v", seed, f, err)
			}
		}
	}
}

// TestPaperForbidsOtherNumbers checks the big-M rows: a number of devices that
// is no count satisfies no choice of the indicators.
func TestPaperForbidsOtherNumbers(t *testing.T) {
	p := &solve.Problem{Devices: 9, Steps: 1, Step: 1, Counts: []int{1, 2, 4}, Jobs: []solve.Job{{Work: 9, Min: 1, Max: 4, Speeds: []float64{1, 1.6, 2}}}}
	st, err := State(p, Paper)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[float64]int{1: 1, 2: 1, 3: 0, 4: 1} {
		satisfied := 0
		for mask := range 1 << 6 {
			values := make([]float64, len(st.Model.Columns))
			values[st.plan[0]] = n
			for bit := range 6 {
				values[st.plan[0]+1+bit] = float64(mask >> bit & 1)
			}
			if st.Model.check(values, 1e-9) == nil {
				satisfied++
			}
		}
		if satisfied != want {
			t.Errorf("%v devices: %d choices of the indicators satisfy the model, want %d", n, satisfied, want)
		}
	}
}

func TestStateRefuses(t *testing.T) {
	p := small(0)
	if _, err := State(p, "loose"); err == nil || !strings.Contains(err.Error(), "use paper or tight") {
		t.Error(err)
	}
	p.Devices = 1
	if _, err := State(p, Tight); err == nil || !strings.Contains(err.Error(), "the jobs need") {
		t.Error(err)
	}
	p = &solve.Problem{Devices: 1 << 30, Steps: 8, Step: 1, Counts: []int{1, 2, 4, 8}, Jobs: make([]solve.Job, 30_000)}
	for i := range p.Jobs {
		p.Jobs[i] = solve.Job{Work: 1, Min: 1, Max: 8, Speeds: []float64{1, 2, 3, 4}}
	}
	if _, err := State(p, Tight); err == nil || !strings.Contains(err.Error(), "take fewer jobs") {
		t.Error(err)
	}
}

// TestOutOfMemory gives HiGHS a model that does not fit into the memory it may have.
func TestOutOfMemory(t *testing.T) {
	dir, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	h, err := openHiGHS(dir, 400)
	if err != nil {
		t.Fatalf("%v (this test needs what scripts/setup test installs)", err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	m := &Model{Name: "wide", Rows: make([]Row, 10)}
	for c := range 50_000 {
		m.Columns = append(m.Columns, Column{Name: "x", Objective: 1, Upper: 1, Integer: true})
		for r := range m.Rows {
			m.Rows[r].Limit = 9
			m.Rows[r].Terms = append(m.Rows[r].Terms, Term{c, 1})
		}
	}
	if _, err := h.Solve(t.Context(), m, time.Minute); !errors.Is(err, errAborted) {
		t.Errorf("got %v", err)
	}
	// What it did to one instance is of no consequence to the next.
	small := &Model{Columns: []Column{{Objective: 1, Upper: 4}}, Rows: []Row{{Limit: 3, Terms: []Term{{0, 1}}}}}
	if a, err := h.Solve(t.Context(), small, time.Minute); err != nil || !a.Optimal || a.Values[0] != 3 {
		t.Errorf("got %+v, %v", a, err)
	}
}

// TestDamagedCache damages what is kept of the compilation: it is not run.
func TestDamagedCache(t *testing.T) {
	from, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	solve := func(dir string) error {
		h, open := OpenHiGHS(dir)
		if open != nil {
			return open
		}
		_, failed := h.Solve(t.Context(), &Model{Columns: []Column{{Objective: 1, Upper: 4}}}, time.Minute)
		return errors.Join(failed, h.Close())
	}
	if err = solve(from); err != nil {
		t.Fatalf("%v (this test needs what scripts/setup test installs)", err)
	}
	dir := t.TempDir()
	if err = os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "compiled", "*", "*"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("kept: %v, %v", kept, err)
	}
	for _, name := range kept {
		if err = os.Truncate(name, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err = solve(dir); err == nil || !strings.Contains(err.Error(), "delete "+filepath.Join(dir, "compiled")) {
		t.Errorf("got %v", err)
	}
}

package milp_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/lab/milp"
)

// patience is far more than any model here takes.
const patience = 2 * time.Minute

// random makes a problem of the paper's kind, with curves that are concave or rough.
func random(seed uint64, jobs, devices, steps int, counts []int) *solve.Problem {
	r := rand.New(rand.NewPCG(seed, 7))
	p := &solve.Problem{Devices: devices, Steps: steps, Step: 300, Counts: counts}
	rough := r.IntN(2) == 0
	for i := range jobs {
		j := solve.Job{Work: math.Max(30, 5400*math.Exp(1.5*r.NormFloat64())), Min: counts[0], Max: counts[len(counts)-1], Present: -1}
		for k, c := range counts {
			v := 0.0
			if c > 0 {
				v = float64(c) * math.Pow(0.8, math.Log2(float64(c)))
			}
			if rough && k > 0 && c > 1 {
				v = math.Max(j.Speeds[k-1], v*(1+0.2*r.NormFloat64()))
			}
			j.Speeds = append(j.Speeds, v)
		}
		if r.IntN(4) == 0 {
			j.Max = counts[r.IntN(len(counts))]
		}
		if i%3 == 0 { // it runs, and a change would cost it something
			j.Present, j.Bonus = counts[int(seed)%len(counts)], float64(i%7)/20
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// open gives the solvers that these tests compare with. Both are there after
// scripts/setup test; without them there is nothing to compare with, and the
// tests fail.
func open(t *testing.T) []milp.Solver {
	t.Helper()
	return []milp.Solver{openHiGHS(t), openCBC(t)}
}

func openHiGHS(t *testing.T) *milp.HiGHS {
	t.Helper()
	dir, err := milp.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	h, err := milp.OpenHiGHS(dir)
	if err != nil {
		t.Fatalf("%v (this test needs what scripts/setup test installs)", err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func openCBC(t *testing.T) *milp.CBC {
	t.Helper()
	c, err := milp.OpenCBC()
	if err != nil {
		t.Fatalf("%v (this test needs what scripts/setup test installs)", err)
	}
	return c
}

// TestThreeSolversAgree compares ours with HiGHS and CBC on both formulations
// of random problems, one step and rolling, concave and rough. Ours may be the
// better one, which Compare has found by valuing counts.
func TestThreeSolversAgree(t *testing.T) {
	solvers := open(t)
	verdicts := map[milp.Verdict]int{}
	problems := uint64(12)
	if testing.Short() {
		problems = 6
	}
	for seed := range problems {
		counts := [][]int{{1, 2, 4, 8}, {0, 1, 2, 4}, {1, 2, 4, 8, 16}, {0, 2, 6}}[seed%4]
		p := random(seed, 5+int(seed)%4, 14+3*int(seed), 1+4*int(seed%2)-int(seed%3)*int(seed%2), counts)
		var s solve.Solver
		ours, err := s.Solve(p, solve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []milp.Formulation{milp.Paper, milp.Tight} {
			st, err := milp.State(p, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, solver := range solvers {
				ref, err := milp.Refer(t.Context(), solver, st, patience)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				verdict, err := milp.Compare(p, ours, ref)
				if err != nil || !ref.Optimal {
					t.Fatalf("seed %d: %s, %s model: optimal %v, %v", seed, solver.Name(), f, ref.Optimal, err)
				}
				t.Logf("seed %2d %s %s: %.6f in %v, ours %.6f of %.6f: %s", seed, solver.Name(), f, ref.Value, ref.Took, ours.Value, ours.Bound, verdict)
				verdicts[verdict]++
			}
		}
	}
	if verdicts[milp.Theirs] > 0 || verdicts[milp.Equal] < int(problems)*10/3 { //nolint:gosec // a few
		t.Errorf("verdicts: %v", verdicts)
	}
}

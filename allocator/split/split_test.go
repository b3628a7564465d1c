package split_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bellows-ml/bellows/allocator/split"
)

// sizes are what jobs of a kind may have.
var sizes = map[string][]int{
	"1 to 10": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "powers of two": {1, 2, 4, 8, 16}, "listed": {2, 3, 6, 12},
}

// draw makes jobs with concave values, as of k^p, or rough ones.
func draw(seed uint64, n int, of []int, concave bool) []split.Job {
	r := rand.New(rand.NewPCG(seed, 1))
	jobs := make([]split.Job, n)
	for j := range jobs {
		p := 0.3 + 0.65*r.Float64()
		for _, k := range of {
			v := math.Pow(float64(k), p)
			if !concave {
				v *= 0.7 + 0.6*r.Float64()
			}
			jobs[j] = append(jobs[j], split.Option{Devices: k, Value: v})
		}
	}
	return jobs
}

// exhaustive is the best value by trying everything; -Inf where nothing fits.
func exhaustive(jobs []split.Job, devices int) float64 {
	if len(jobs) == 0 {
		return 0
	}
	best := math.Inf(-1)
	for _, o := range jobs[0] {
		if o.Devices <= devices {
			best = max(best, o.Value+exhaustive(jobs[1:], devices-o.Devices))
		}
	}
	return best
}

// check adds up a plan.
func check(t *testing.T, p split.Plan, jobs []split.Job, devices int) {
	t.Helper()
	used, sum := 0, 0.0
	for j, c := range p.Choices {
		used += jobs[j][c].Devices
		sum += jobs[j][c].Value
	}
	if used > devices || len(p.Choices) != len(jobs) {
		t.Errorf("%d devices are used of %d by %d of %d jobs", used, devices, len(p.Choices), len(jobs))
	}
	if math.Abs(sum-p.Value) > 1e-9*math.Abs(sum) || p.Bound < p.Value {
		t.Errorf("the value is %v and its bound %v; the choices are worth %v", p.Value, p.Bound, sum)
	}
}

func TestBestIsTheBestOfAll(t *testing.T) {
	tried, infeasible := 0, 0
	for name, of := range sizes {
		for seed := range uint64(60) {
			jobs := draw(seed, int(seed%5), of, seed%3 == 0)
			for devices := range 14 {
				want := exhaustive(jobs, devices)
				p, ok := split.Best(jobs, devices)
				h, fits := split.Hull(jobs, devices)
				if ok != !math.IsInf(want, -1) || fits != ok {
					t.Fatalf("%s, seed %d on %d: feasible %t and %t, the best of all is %v", name, seed, devices, ok, fits, want)
				}
				if !ok {
					infeasible++
					continue
				}
				tried++
				check(t, p, jobs, devices)
				check(t, h, jobs, devices)
				if math.Abs(p.Value-want) > 1e-9*math.Abs(want) {
					t.Errorf("%s, seed %d on %d: %v, the best of all is %v", name, seed, devices, p.Value, want)
				}
				if h.Bound < want-1e-9*math.Abs(want) || h.Value > want+1e-9*math.Abs(want) {
					t.Errorf("%s, seed %d on %d: the hull has %v within %v, the best of all is %v", name, seed, devices, h.Value, h.Bound, want)
				}
			}
		}
	}
	if tried < 1000 || infeasible < 100 {
		t.Errorf("only %d problems were solved and %d found infeasible", tried, infeasible)
	}
}

func TestNothingFits(t *testing.T) {
	for name, jobs := range map[string][]split.Job{"no option": {{}}, "too large": {{{Devices: 3, Value: 1}}, {{Devices: 3, Value: 1}}}} {
		if _, ok := split.Best(jobs, 5); ok {
			t.Errorf("%s: Best has an answer", name)
		}
		if _, ok := split.Hull(jobs, 5); ok {
			t.Errorf("%s: Hull has an answer", name)
		}
		if split.Work(jobs, 5) != 0 {
			t.Errorf("%s: there is work to do", name)
		}
	}
}

// The hull is exact where each step is of one device and worth less than the one before.
// Elsewhere it is close: -v tells how close, in the settings of docs/policies.md.
func TestHullBesideBest(t *testing.T) {
	for _, of := range []string{"1 to 10", "powers of two"} {
		for _, concave := range []bool{true, false} {
			worst, sum, loose := 0.0, 0.0, 0.0
			const seeds = 20
			for seed := range uint64(seeds) {
				jobs := draw(seed, 100, sizes[of], concave)
				best, _ := split.Best(jobs, 400)
				hull, _ := split.Hull(jobs, 400)
				check(t, hull, jobs, 400)
				gap := 1 - hull.Value/best.Value
				worst, sum, loose = max(worst, gap), sum+gap/seeds, max(loose, hull.Bound/best.Value-1)
			}
			t.Logf("100 jobs on 400 devices, %s, concave %t: the hull is worth %.4f %% less (worst %.4f %%), its bound %.4f %% more", of, concave, 100*sum, 100*worst, 100*loose)
			most := 0.002
			if concave && of == "1 to 10" {
				most = 1e-12
			}
			if worst > most || loose > 0.01 {
				t.Errorf("%s, concave %t: the hull is %v worse, its bound %v above", of, concave, worst, loose)
			}
		}
	}
}

// Equal plans: the earlier jobs have more, each time.
func TestEqualPlans(t *testing.T) {
	jobs := []split.Job{{{1, 1}, {2, 2}}, {{1, 1}, {2, 2}}}
	if p, _ := split.Best(jobs, 3); p.Choices[0] != 1 || p.Choices[1] != 0 {
		t.Errorf("the choices are %v", p.Choices)
	}
}

func BenchmarkSplit(b *testing.B) {
	for _, x := range []struct {
		jobs, devices int
		of            string
		concave       bool
	}{{100, 400, "1 to 10", true}, {200, 400, "1 to 10", false}, {4000, 10000, "1 to 10", true}, {4000, 10000, "powers of two", false}} {
		jobs := draw(1, x.jobs, sizes[x.of], x.concave)
		for name, f := range map[string]func([]split.Job, int) (split.Plan, bool){"best": split.Best, "hull": split.Hull} {
			b.Run(fmt.Sprintf("%s/%d jobs on %d, %s, concave %t", name, x.jobs, x.devices, x.of, x.concave), func(b *testing.B) {
				for b.Loop() {
					f(jobs, x.devices)
				}
			})
		}
	}
}

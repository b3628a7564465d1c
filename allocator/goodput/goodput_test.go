package goodput_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bellows-ml/bellows/allocator/goodput"
)

func TestDefault(t *testing.T) {
	for k, want := range map[int]float64{-1: 0, 0: 0, 1: 1, 2: 1.6, 4: 2.56, 8: 4.096, 16: 6.5536} {
		if got := goodput.Default(k); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d workers: %v, want %v", k, got, want)
		}
	}
	for k := 1; k < 1000; k++ {
		if goodput.Default(k+1) <= goodput.Default(k) {
			t.Fatalf("%d workers are no faster than %d", k+1, k)
		}
		if want := float64(k) * math.Pow(0.8, math.Log2(float64(k))); math.Abs(goodput.Default(k)-want) > 1e-9*want {
			t.Fatalf("%d workers: %v, want %v", k, goodput.Default(k), want)
		}
	}
}

func TestFit(t *testing.T) {
	type o = goodput.Observation
	for _, c := range []struct {
		name string
		seen []o
		at   int
		want float64
	}{
		{"nothing seen", nil, 8, 4.096},
		{"only nonsense seen", []o{{0, 5}, {2, math.NaN()}, {2, 0}, {2, -1}, {4, math.Inf(1)}}, 8, 4.096},
		{"through the point", []o{{1, 10}, {4, 36}}, 4, 3.6},
		{"between two points", []o{{1, 10}, {4, 36}}, 2, math.Sqrt(3.6)},
		{"beyond the last point", []o{{1, 10}, {4, 36}}, 8, 3.6 * 1.6},
		{"one was not seen", []o{{4, 25.6}}, 4, 2.56},
		{"below the first point", []o{{4, 25.6}, {8, 50}}, 2, 1.6},
		{"the median of many", []o{{1, 10}, {2, 19}, {2, 1}, {2, 18}}, 2, 1.8},
		{"never falls", []o{{1, 10}, {2, 19}, {4, 15}}, 4, 1.9},
		{"no workers", []o{{1, 10}}, 0, 0},
	} {
		if got := goodput.Fit(c.seen).Speed(c.at); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %d workers have speed %v, want %v", c.name, c.at, got, c.want)
		}
	}
}

// TestFitProperties checks on random measurements that the curve never falls
// up to the largest number seen, is positive, and does not depend on their order.
func TestFitProperties(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var seen []goodput.Observation
		for range r.IntN(8) {
			seen = append(seen, goodput.Observation{Workers: 1 << r.IntN(5), PerSecond: 100 * r.Float64()})
		}
		c := goodput.Fit(seen)
		r.Shuffle(len(seen), func(i, k int) { seen[i], seen[k] = seen[k], seen[i] })
		mixed := goodput.Fit(seen)
		speeds := c.Speeds([]int{1, 2, 3, 4, 5, 8, 16, 32})
		for i, s := range speeds {
			if i > 0 && s < speeds[i-1]*(1-1e-12) || !(s > 0) {
				t.Fatalf("seed %d: speeds %v", seed, speeds)
			}
		}
		if c.Speed(6) != mixed.Speed(6) {
			t.Fatalf("seed %d: the order of measurements matters", seed)
		}
	}
}

package goodput_test

import (
	"math"
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

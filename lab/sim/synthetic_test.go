package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/lab/trace"
)

func TestSyntheticIsLikeWhatIsSaidOfIt(t *testing.T) {
	for seed := range uint64(20) {
		f := Synthetic(seed)
		long, all, jobs := 0.0, 0.0, 0
		for _, a := range f.Arrivals {
			all += a.Duration.Minutes()
			if a.Duration >= 5*time.Minute {
				jobs++
				long += a.Duration.Minutes()
			}
		}
		if len(f.Arrivals) != 1252 || jobs != 447 || math.Abs(long/447-232.6) > 0.01 || math.Abs(all/1252-84.3) > 0.01 {
			t.Errorf("seed %d: %d jobs, %d long, %.2f and %.2f minutes", seed, len(f.Arrivals), jobs, long/447, all/1252)
		}
		if !slices.IsSortedFunc(f.Arrivals, func(a, b trace.Arrival) int { return int(a.Submit - b.Submit) }) || f.Arrivals[1251].Submit > 51*time.Hour {
			t.Errorf("seed %d: not in order, or too long", seed)
		}
	}
	if slices.EqualFunc(Synthetic(1).Arrivals, Synthetic(2).Arrivals, func(a, b trace.Arrival) bool { return a.Duration == b.Duration }) {
		t.Error("the seed changes nothing")
	}
}

package goodput_test

import (
	"math"
	"testing"

	"github.com/bellows-ml/bellows/allocator/goodput"
)

func TestGain(t *testing.T) {
	for _, c := range []struct {
		noise           float64
		smallest, batch int
		want            float64
	}{
		{64, 64, 64, 1},
		{0, 64, 64, 1},
		{64, 64, 256, 2 / 1.25},
		{1e-9, 64, 256, 1}, // gradients agree: more samples add nothing
		{1e15, 64, 256, 4}, // all noise: each sample counts
		{64, 64, 32, 2.0 / 3},
		{0, 64, 256, 0},
		{-1, 64, 256, 0},
		{math.NaN(), 64, 256, 0},
		{math.Inf(1), 64, 256, 0},
		{64, 0, 256, 0},
	} {
		if got := goodput.Gain(c.noise, c.smallest, c.batch); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("Gain(%v, %d, %d) = %v, want %v", c.noise, c.smallest, c.batch, got, c.want)
		}
	}
}

// What two batches and two sizes have shown tells a third batch, by the time of a step
// that a device makes in parts of 32 samples.
func TestModelAtAnotherBatch(t *testing.T) {
	of := goodput.Step{Batch: 64, Micro: 32}
	truth := func(k, batch int) float64 {
		parts := math.Max(1, math.Ceil(float64(batch)/float64(k)/32)) * float64(k) // against those of the first batch
		parts /= math.Max(1, math.Ceil(64/float64(k)/32)) * float64(k)
		return 1 / (0.02*parts + 0.4*float64(batch)/64/float64(k) + 0.3*(1-1/float64(k)))
	}
	var seen []goodput.Point
	for _, k := range []int{1, 2, 4} {
		for _, b := range []int{64, 256} {
			p := point(k, truth(k, b))
			p.Batch = b
			seen = append(seen, p)
		}
	}
	m := goodput.Fit(seen, of)
	for _, b := range []int{64, 128, 256, 512} {
		for _, k := range []int{1, 2, 4, 8} {
			if got, want := m.At(b).Speed(k, 1).PerSecond, truth(k, b); math.Abs(math.Log(got/want)) > 0.12 {
				t.Errorf("%d workers, batch %d: %v steps/s, want %v", k, b, got, want)
			}
		}
	}
}

// With one batch measured, one worker gains nothing in samples by a larger one; more of
// them do, as they communicate less often.
func TestModelOfOneBatchAtAnother(t *testing.T) {
	for name, seen := range map[string][]goodput.Point{
		"of one size": {point(1, 10)}, "of two sizes": {point(1, 10), point(4, 25.6)},
	} {
		m := goodput.Fit(seen, goodput.Step{Batch: 64, Micro: 8})
		for _, k := range []int{1, 8} {
			samples := 2 * m.At(128).Speed(k, 1).PerSecond / m.Speed(k, 1).PerSecond
			if k == 1 && math.Abs(samples-1) > 0.05 || k == 8 && !(samples > 1.1 && samples < 2) {
				t.Errorf("%s: %d workers take %v times the samples at twice the batch", name, k, samples)
			}
		}
		if at := m.At(64).Speed(4, 1); math.Abs(at.PerSecond/m.Speed(4, 1).PerSecond-1) > 1e-9 {
			t.Errorf("%s: at its own batch %+v, %+v", name, at, m.Speed(4, 1))
		}
	}
}

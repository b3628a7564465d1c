package sim

import (
	"math/bits"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Speed is how fast a job runs, relative to one device, on 1, 2, 4, … devices. Nil is
// the paper's model, goodput.Default. Beyond its end a curve is flat.
type Speed []float64

// On returns the speed on k devices; a curve is read at the largest power of two that is not above k.
func (s Speed) On(k int) float64 {
	if s == nil {
		return goodput.Default(k)
	}
	return s[min(bits.Len(uint(k))-1, len(s)-1)]
}

// curveOf turns a profile's curve into a Speed and its rate on one device.
func curveOf(points []trace.Point) (s Speed, one float64) {
	one = points[0].Rate
	for _, p := range points {
		s = append(s, p.Rate/one)
	}
	return s, one
}

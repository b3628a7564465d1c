package goodput

import (
	"cmp"
	"math"
	"slices"
)

// Default is the speed of k workers relative to one in the default model,
// k·0.8^log2(k): each doubling keeps 80 % of what it could gain (Hu et al.,
// section 4.2 and Figure 6). It is 0 for k ≤ 0, where the formula has no value.
func Default(k int) float64 {
	if k <= 0 {
		return 0
	}
	if k&(k-1) == 0 { // exactly a power of two: multiply, so that every machine gets the same bits
		speed := 1.0
		for ; k > 1; k /= 2 {
			speed *= 2 * 0.8
		}
		return speed
	}
	return math.Pow(float64(k), 1+math.Log2(0.8))
}

// Observation is one measurement: what a world of so many workers achieved, in
// samples (or steps of one batch size) per second.
type Observation struct {
	Workers   int
	PerSecond float64
}

// Curve is a speed model. The zero value is the default model.
type Curve struct {
	points []point // by workers, ascending, speeds never falling, relative to one worker
}

type point struct {
	workers int
	speed   float64
}

// Fit makes a curve through the measurements: through the median of those with
// the same number of workers, raised to at least what fewer workers achieved.
// Between two numbers it is a straight line of log speed over log workers; to
// both sides it goes on like the default model, from which it also takes the
// speed of one worker if that was not measured. Measurements that cannot be
// (no workers, a speed that is not positive and finite) are left out.
func Fit(observations []Observation) Curve {
	seen := slices.Clone(observations)
	seen = slices.DeleteFunc(seen, func(o Observation) bool {
		return o.Workers < 1 || !(o.PerSecond > 0) || math.IsInf(o.PerSecond, 0)
	})
	slices.SortFunc(seen, func(x, y Observation) int {
		return cmp.Or(x.Workers-y.Workers, cmp.Compare(x.PerSecond, y.PerSecond))
	})
	var c Curve
	for len(seen) > 0 {
		n := 1
		for n < len(seen) && seen[n].Workers == seen[0].Workers {
			n++
		}
		p := point{seen[0].Workers, median(seen[:n])}
		if k := len(c.points); k > 0 {
			p.speed = max(p.speed, c.points[k-1].speed)
		}
		c.points = append(c.points, p)
		seen = seen[n:]
	}
	if len(c.points) > 0 {
		one := c.points[0].speed / Default(c.points[0].workers)
		for i := range c.points {
			c.points[i].speed /= one
		}
	}
	return c
}

// median of measurements sorted by speed.
func median(sorted []Observation) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2].PerSecond + sorted[n/2].PerSecond) / 2
}

// Speed is the speed of k workers relative to one, 0 for k ≤ 0.
func (c Curve) Speed(k int) float64 {
	if len(c.points) == 0 || k <= 0 {
		return Default(k)
	}
	i, found := slices.BinarySearchFunc(c.points, k, func(p point, k int) int { return p.workers - k })
	switch {
	case found:
		return c.points[i].speed
	case i == 0:
		return like(c.points[0], k)
	case i == len(c.points):
		return like(c.points[i-1], k)
	}
	p, q := c.points[i-1], c.points[i]
	part := math.Log(float64(k)/float64(p.workers)) / math.Log(float64(q.workers)/float64(p.workers))
	return p.speed * math.Pow(q.speed/p.speed, part)
}

// like is the speed of k workers that lies to p's as in the default model.
func like(p point, k int) float64 {
	return p.speed * (Default(k) / Default(p.workers))
}

// Speeds returns the speed at each of the sizes, as allocator.JobView wants them.
func (c Curve) Speeds(sizes []int) []float64 {
	speeds := make([]float64, len(sizes))
	for i, k := range sizes {
		speeds[i] = c.Speed(k)
	}
	return speeds
}

package solve

import "slices"

// instance is a problem with what is computed of it once.
type instance struct {
	p      *Problem
	jobs   []job
	shapes []*shape  // by options
	steps  int       // of the shapes
	sums   []float64 // of the states of all jobs
}

func (x *instance) prepare(p *Problem) {
	x.p = p
	if x.steps != p.Steps {
		x.steps, x.shapes = p.Steps, nil
	}
	x.jobs = resize(x.jobs, len(p.Jobs))
	for i := range p.Jobs {
		x.fill(i)
	}
	x.addUp()
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// fill computes job i.
func (x *instance) fill(i int) {
	from, p := &x.p.Jobs[i], x.p
	low, high := p.index(from.Min), p.index(from.Max)
	speeds := from.Speeds[low : high+1]
	j := job{low: low, speeds: speeds, present: -1, bonus: from.Bonus, scale: p.Step / from.Work}
	if at := p.index(from.Present); from.Bonus > 0 && at >= low && at <= high {
		j.present = at - low
	}
	switch {
	case j.scale*speeds[0] >= 1:
		j.kind = settled
	case j.scale*speeds[len(speeds)-1]*float64(p.Steps) <= 1:
		j.kind = endless
	default:
		j.kind = finishing
		j.shape = x.shape(len(speeds))
	}
	x.jobs[i] = j
}

// addUp computes the sums of the finishing jobs' states. Most jobs have the same
// curve; the sums of a few jobs before are shared.
func (x *instance) addUp() {
	const near = 8
	shared, need := func(i int) *job {
		j := &x.jobs[i]
		for back := i - 1; back >= max(0, i-near); back-- {
			if o := &x.jobs[back]; o.kind == finishing && o.low == j.low && slices.Equal(o.speeds, j.speeds) {
				return o
			}
		}
		return nil
	}, 0
	for i := range x.jobs {
		if x.jobs[i].kind == finishing && shared(i) == nil {
			need += x.jobs[i].shape.size()
		}
	}
	x.sums = resize(x.sums, need)
	left := x.sums
	for i := range x.jobs {
		j := &x.jobs[i]
		if j.kind != finishing {
			continue
		}
		if o := shared(i); o != nil {
			j.sums = o.sums
			continue
		}
		n := j.shape.size()
		j.sums, left = left[:n:n], left[n:]
		j.shape.addUp(j.speeds, j.sums)
	}
}

func (x *instance) shape(options int) *shape {
	for len(x.shapes) <= options {
		x.shapes = append(x.shapes, nil)
	}
	if x.shapes[options] == nil {
		x.shapes[options] = newShape(options, x.steps)
	}
	return x.shapes[options]
}

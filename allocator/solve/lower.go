package solve

import "math"

// lowerBounds are the least that undecided items can still lose, by the number of
// devices that each step has to spare. Each step is relaxed by itself: it may
// choose for each item another plan than the other steps do, and is charged its
// share of what the plan loses.
type lowerBounds struct {
	steps int
	value []float64 // by item, step and spare devices + window; item 0 is the cost of the decoupled jobs
}

const boundWidth = 2*window + 1

func (f *lowerBounds) row(item, step int) []float64 {
	return f.value[(item*f.steps+step)*boundWidth:][:boundWidth]
}

// fill makes the tables; items are decided from the last to the first, so that
// row n is about the items before n.
func (f *lowerBounds) fill(s *Solver, c *core) {
	f.steps = s.p.Steps
	f.value = resize(f.value, (len(c.items)+1)*f.steps*boundWidth)
	for t := range f.steps {
		row := f.row(0, t)
		for x := range row {
			row[x] = s.decoupled.steps[t].at(x - window)
		}
	}
	for n := range c.items {
		for t := range f.steps {
			copy(f.row(n+1, t), f.row(n, t))
		}
		for _, a := range c.alts[c.items[n].from+1 : c.items[n].to] {
			f.include(s, n, &a)
		}
	}
}

// include takes one plan of item n into account.
func (f *lowerBounds) include(s *Solver, n int, a *alternative) {
	total := 0.0
	for t := range f.steps {
		total += math.Abs(float64(a.more[t])) * (s.lambda[t] + 1e-12)
	}
	for t := range f.steps {
		more := a.more[t]
		if more == 0 {
			continue
		}
		loss := a.loss * math.Abs(float64(more)) * (s.lambda[t] + 1e-12) / total
		before, row := f.row(n, t), f.row(n+1, t)
		from, to := max(0, more), min(boundWidth, boundWidth+more)
		for x := from; x < to; x++ {
			row[x] = min(row[x], loss+before[x-more])
		}
		// Beyond the window it is only known that nothing is gained.
		for x := range from {
			row[x] = min(row[x], loss)
		}
		for x := to; x < boundWidth; x++ {
			row[x] = min(row[x], loss)
		}
	}
}

// at is the least that the items before n and the decoupled jobs lose with so many spare devices.
func (f *lowerBounds) at(n int, spare *[maxSteps]int16) float64 {
	total := 0.0
	for t := range f.steps {
		if x := int(spare[t]) + window; x >= 0 && x < boundWidth {
			total += f.value[(n*f.steps+t)*boundWidth+x]
		}
	}
	return total
}

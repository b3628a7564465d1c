package solve

import "math"

// floors says what is still to be lost, at least, when all items from some
// point on are undecided and a step has so many devices to spare. Each step is
// relaxed by itself: it may choose for every item another plan than the other
// steps do, and bears its share of what the plan loses.
type floors struct {
	steps int
	value []float64 // by item, step and spare devices + window; the last item's is the rest's cost
}

const floorWidth = 2*window + 1

func (f *floors) row(item, step int) []float64 {
	return f.value[(item*f.steps+step)*floorWidth:][:floorWidth]
}

// fill makes the tables; items are decided from the last to the first, so that
// row n is about the items before n.
func (f *floors) fill(s *Solver, c *core) {
	f.steps = s.p.Steps
	f.value = resize(f.value, (len(c.items)+1)*f.steps*floorWidth)
	for t := range f.steps {
		row := f.row(0, t)
		for x := range row {
			row[x] = s.rest.steps[t].at(x - window)
		}
	}
	for n := range c.items {
		for t := range f.steps {
			copy(f.row(n+1, t), f.row(n, t))
		}
		for _, a := range c.alts[c.items[n].from+1 : c.items[n].to] {
			f.lower(s, n, &a)
		}
	}
}

// lower takes one plan of item n into account.
func (f *floors) lower(s *Solver, n int, a *alternative) {
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
		from, to := max(0, more), min(floorWidth, floorWidth+more)
		for x := from; x < to; x++ {
			row[x] = min(row[x], loss+before[x-more])
		}
		// Beyond the window nothing is known but that nothing is gained.
		for x := range from {
			row[x] = min(row[x], loss)
		}
		for x := to; x < floorWidth; x++ {
			row[x] = min(row[x], loss)
		}
	}
}

// at is what the items before n and the rest lose at least with so much to spare.
func (f *floors) at(n int, spare *[maxSteps]int16) float64 {
	total := 0.0
	for t := range f.steps {
		if x := int(spare[t]) + window; x >= 0 && x < floorWidth {
			total += f.value[(n*f.steps+t)*floorWidth+x]
		}
	}
	return total
}

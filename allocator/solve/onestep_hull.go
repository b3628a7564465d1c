package solve

// hull relaxes the one-step problem: a job may have any mixture of its counts,
// so that the value of further devices falls, edge by edge of the upper hull of
// its values. The best mixture takes all edges by their slopes until one does not
// fit; only that one is taken in part.
type hull struct {
	edges []edge
	order []slope
	stack []uint8
}

// edge goes from one count of a job to another one of higher value.
type edge struct {
	job  int32
	to   uint8
	more int // devices
}

type slope struct {
	steep float64
	at    int32 // its edge
}

func (x slope) before(y slope) bool {
	return x.steep > y.steep || x.steep == y.steep && x.at < y.at
}

// Hull finds counts by the relaxation, which gives a bound, and a search among
// the few changes of its solution that could still be better, which mostly
// proves the best. It takes about jobs × counts steps.
func (s *OneStepSolver) Hull(p *OneStep) (OneStepResult, error) {
	if err := s.prepare(p); err != nil {
		return OneStepResult{}, err
	}
	h := &s.hull
	h.edges, h.order = h.edges[:0], h.order[:0]
	bound := 0.0
	for i := range p.Values {
		h.add(s, i)
		s.at[i] = s.low[i]
		bound += p.Values[i][s.low[i]]
	}
	taken, idle := h.take(s.room)
	for _, o := range h.order[:taken] {
		e := h.edges[o.at]
		s.at[e.job] = max(s.at[e.job], e.to)
		bound += o.steep * float64(e.more)
	}
	price := 0.0
	if taken < len(h.order) {
		price = h.order[taken].steep
	}
	bound += price * float64(idle)
	r, err := s.result(bound - s.changes.search(s, price, idle))
	r.Price = price
	return r, err
}

// add appends job i's edges, from the steepest to the flattest that still rises.
func (h *hull) add(s *OneStepSolver, i int) {
	counts, values := s.p.Counts, s.p.Values[i]
	rise := func(a, b uint8) float64 {
		return (values[b] - values[a]) / float64(counts[b]-counts[a])
	}
	stack := append(h.stack[:0], s.low[i])
	for k := int(s.low[i]) + 1; k < len(values); k++ {
		top := len(stack) - 1
		if !(values[k] > values[stack[top]]) {
			continue // more devices for no more: never on the way up
		}
		for top > 0 && rise(stack[top], uint8(k)) >= rise(stack[top-1], stack[top]) {
			top--
		}
		stack = append(stack[:top+1], uint8(k))
	}
	h.stack = stack
	for n := 1; n < len(stack); n++ {
		h.order = append(h.order, slope{rise(stack[n-1], stack[n]), int32(len(h.edges))})
		h.edges = append(h.edges, edge{int32(i), stack[n], counts[stack[n]] - counts[stack[n-1]]})
	}
}

// take brings those edges to the front of order that are steeper than the first
// that does not fit any more, which comes next. It returns how many they are and
// the devices left. (A selection by weight: no need to sort them all.)
func (h *hull) take(room int) (taken, idle int) {
	low, high := 0, len(h.order)
	for low < high {
		middle := h.partition(low, high)
		need := 0
		for _, o := range h.order[low : middle+1] {
			need += h.edges[o.at].more
		}
		if need <= room {
			room -= need
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, room
}

// partition orders [low, high) around one of its elements and returns where that is now.
func (h *hull) partition(low, high int) int {
	order := h.order[low:high]
	last := len(order) - 1
	a, b, c := order[0], order[last/2], order[last]
	pivot := last // the median of three
	switch {
	case a.before(b) == b.before(c):
		pivot = last / 2
	case b.before(a) == a.before(c):
		pivot = 0
	}
	order[pivot], order[last] = order[last], order[pivot]
	at := 0
	for n := range last {
		if order[n].before(order[last]) {
			order[n], order[at] = order[at], order[n]
			at++
		}
	}
	order[at], order[last] = order[last], order[at]
	return low + at
}

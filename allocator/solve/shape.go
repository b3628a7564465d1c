package solve

// shape is the graph of what a job with a given number of options can have had
// after each step. What it has done depends only on how often it had each
// option, not on the order, so the states of layer t are the multisets of t
// options: 1, 5, 15, 35, 70, 126 for five options, not 5^t.
type shape struct {
	options, steps int
	layer          []int   // layer t is [layer[t], layer[t+1])
	child          []int32 // by state and option: the state after one more; none for the last layer
	tally          []uint8 // by state and option: how often it was had
}

// states is how many states a shape has, without making it.
func states(options, steps int) int {
	n := 0
	for t := range steps + 1 {
		c := 1
		for i := 1; i <= t; i++ {
			c = c * (options + i - 1) / i
		}
		n += c
	}
	return n
}

func newShape(options, steps int) *shape {
	s := &shape{options: options, steps: steps, layer: []int{0}, tally: make([]uint8, options)}
	n := 1
	for t := range steps {
		s.layer = append(s.layer, n)
		index := map[string]int32{}
		for from := s.layer[t]; from < s.layer[t+1]; from++ {
			for k := range options {
				next := append([]uint8(nil), s.tally[from*options:(from+1)*options]...)
				next[k]++
				at, ok := index[string(next)]
				if !ok {
					at = int32(n)
					index[string(next)] = at
					s.tally = append(s.tally, next...)
					n++
				}
				s.child = append(s.child, at)
			}
		}
	}
	s.layer = append(s.layer, n)
	return s
}

// size is how many states there are.
func (s *shape) size() int { return s.layer[s.steps+1] }

// addUp fills in the speed had so far in each state: Σ of the options' speeds.
func (s *shape) addUp(speeds, sums []float64) {
	for at := range sums {
		sums[at] = 0
		for k, v := range speeds {
			sums[at] += float64(s.tally[at*s.options+k]) * v
		}
	}
}

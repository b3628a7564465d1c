package capacity

import (
	"cmp"
	"math"
	"slices"
)

// choice is one way to run a job, or to let it wait (devices 0).
type choice struct {
	cost    float64
	typ     int32
	devices int32
}

// market is a problem as the search for prices sees it: the choices of all jobs in one list.
type market struct {
	p       *Problem
	k       int      // nodes that may run
	choices []choice // of all jobs
	from    []int    // job i has choices[from[i]:from[i+1]]
	best    []int32  // beside jobs: the last evaluation's choices
	used    []int    // beside types: devices that they take
	ran     []int    // beside types: nodes that run
	worth   []float64
	order   []int // types, by what a node of them is worth
}

func newMarket(p *Problem) *market {
	m := &market{
		p: p, k: p.nodes(), from: make([]int, len(p.Jobs)+1), best: make([]int32, len(p.Jobs)),
		used: make([]int, len(p.Types)), ran: make([]int, len(p.Types)), worth: make([]float64, len(p.Types)), order: make([]int, len(p.Types)),
	}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		m.choices = append(m.choices, choice{cost: j.Wait})
		for v, costs := range j.Costs {
			if p.most(v) == 0 {
				continue
			}
			for g, c := range costs {
				if !math.IsInf(c, 1) {
					m.choices = append(m.choices, choice{c, int32(v), int32(g + 1)})
				}
			}
		}
		m.from[i+1] = len(m.choices)
	}
	return m
}

// bound is the certified lower bound at prices of a device of each type, none negative.
// It leaves in best, used and ran what jobs and nodes choose at them.
func (m *market) bound(prices []float64) float64 {
	sum := 0.0
	clear(m.used)
	net := m.worth // of a device of each type: its price less what it would cost idle
	for v, t := range m.p.Types {
		net[v] = prices[v] - t.Idle
	}
	for i := range m.best {
		least, at := math.Inf(1), m.from[i]
		for c := m.from[i]; c < m.from[i+1]; c++ {
			o := &m.choices[c]
			if r := o.cost + float64(float64(o.devices)*net[o.typ]); r < least {
				least, at = r, c
			}
		}
		sum += least
		m.best[i] = int32(at)
		m.used[m.choices[at].typ] += int(m.choices[at].devices)
	}
	return sum + m.runNodes(net)
}

// runNodes runs those nodes that are worth the most, and returns what they cost: less
// than nothing where their devices' prices exceed what they would cost idle.
func (m *market) runNodes(net []float64) float64 {
	for v := range m.order {
		m.order[v] = v
		net[v] *= float64(m.p.Types[v].Devices)
	}
	slices.SortFunc(m.order, func(a, b int) int { return cmp.Or(cmp.Compare(net[b], net[a]), cmp.Compare(a, b)) })
	clear(m.ran)
	left, cost := m.k, 0.0
	for _, v := range m.order {
		if net[v] <= 0 && !m.p.Full {
			break
		}
		n := min(left, m.p.most(v))
		m.ran[v] = n
		cost -= float64(n) * net[v]
		left -= n
	}
	return cost
}

// prices are those that the search varies: one for a node of any type, and one more for
// each type that there are few of.
type prices struct {
	node   float64
	scarce []float64
	device []float64 // what follows of them
}

func (m *market) at(s *prices) float64 {
	for v, t := range m.p.Types {
		s.device[v] = max(0, t.Idle+(s.node+s.scarce[v])/float64(t.Devices))
	}
	return m.bound(s.device)
}

const (
	// halvings is how often an interval of prices is halved: to a billionth.
	halvings = 40
	// rounds is how often the prices are gone through, one after the other, where several matter.
	rounds = 6
	// polishing is how many steps are taken with all prices at once then.
	polishing = 60
)

// solve finds prices at which the bound is high, and the bound.
func (m *market) solve() (device []float64, bound float64) {
	s := &prices{scarce: make([]float64, len(m.p.Types)), device: make([]float64, len(m.p.Types))}
	top := m.dearest()
	low := 0.0
	if m.p.Full {
		low = -top
	}
	var scarce []int
	for v := range m.p.Types {
		if m.p.most(v) < m.k {
			scarce = append(scarce, v)
		}
	}
	climb := func(x *float64, low float64) { // the bound is concave in each price
		high := top
		for range halvings {
			third := (high - low) / 3
			*x = low + third
			left := m.at(s)
			*x = high - third
			if m.at(s) > left {
				low += third
			} else {
				high -= third
			}
		}
		*x = (low + high) / 2
	}
	m.balance(s, low, top)
	best, at := m.at(s), slices.Clone(s.device)
	keep := func(b float64, device []float64) {
		if b > best {
			best = b
			copy(at, device)
		}
	}
	if len(scarce) == 0 {
		return at, best
	}
	for range rounds {
		before := best
		for _, v := range scarce {
			climb(&s.scarce[v], 0)
		}
		climb(&s.node, low)
		keep(m.at(s), s.device)
		if best-before <= 1e-6*math.Abs(best) {
			break
		}
	}
	m.polish(at, keep)
	return at, best
}

// dearest is more than any price at which a job still runs.
func (m *market) dearest() float64 {
	top := 1.0
	for i := range m.best {
		wait := m.choices[m.from[i]].cost
		for c := m.from[i] + 1; c < m.from[i+1]; c++ {
			o := &m.choices[c]
			top = max(top, math.Abs(wait-o.cost)*float64(m.p.Types[o.typ].Devices)/float64(o.devices))
		}
	}
	return top * 1.01
}

// balance halves the interval of the price of a node until jobs take as many as there are.
func (m *market) balance(s *prices, low, high float64) {
	bounds := [2]float64{low, high}
	for range halvings {
		s.node = (bounds[0] + bounds[1]) / 2
		m.at(s)
		nodes := 0.0
		for v, u := range m.used {
			nodes += float64(u) / float64(m.p.Types[v].Devices)
		}
		if nodes > float64(m.k) {
			bounds[0] = s.node
		} else {
			bounds[1] = s.node
		}
	}
	s.node = bounds[0]
	lower := m.at(s)
	if s.node = bounds[1]; m.at(s) < lower {
		s.node = bounds[0]
	}
}

// polish moves all prices at once along the subgradient, from at.
func (m *market) polish(at []float64, keep func(bound float64, device []float64)) {
	device := slices.Clone(at)
	step := 0.0
	for n := range polishing {
		b := m.bound(device)
		keep(b, device)
		norm := 0.0
		for v := range device {
			excess := float64(m.used[v] - m.ran[v]*m.p.Types[v].Devices)
			norm += excess * excess
		}
		if norm == 0 {
			return
		}
		if n%10 == 0 {
			step = 0.02 * math.Max(1e-9, math.Abs(b)) / math.Exp2(float64(n)/8)
		}
		for v := range device {
			excess := float64(m.used[v] - m.ran[v]*m.p.Types[v].Devices)
			device[v] = max(0, device[v]+step*excess/norm)
		}
	}
}

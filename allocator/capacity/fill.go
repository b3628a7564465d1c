package capacity

import (
	"cmp"
	"math"
	"slices"
)

// fill is a plan in the making.
type fill struct {
	m     *market
	net   []float64 // by type: price less idle cost of a device
	bound float64
	nodes []Node
	on    []int // beside jobs: its node, −1 = it waits
	ran   []int // by type: nodes that run
	cost  float64

	open  [][]choice // beside jobs: the choices that a better plan can have
	least []float64  // beside jobs: the cost of the best choice at the prices
	table []float64
	picks []uint8
}

func newFill(m *market, net []float64, bound float64) *fill {
	f := &fill{
		m: m, net: net, bound: bound, on: make([]int, len(m.best)), ran: make([]int, len(m.p.Types)),
		open: make([][]choice, len(m.best)), least: make([]float64, len(m.best)),
	}
	for i := range f.on {
		f.on[i] = -1
		f.least[i] = math.Inf(1)
		for c := m.from[i]; c < m.from[i+1]; c++ {
			f.least[i] = min(f.least[i], m.loss(c, net, 0))
		}
	}
	return f
}

// pack puts the chosen shares on as few nodes as they need, the largest first; those that
// fit on none wait.
func (f *fill) pack(best []int32) {
	f.nodes = nil
	clear(f.ran)
	order := make([]int, 0, len(best))
	for i, b := range best {
		f.on[i] = -1
		if f.m.choices[b].devices > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(x, y int) int {
		a, b := &f.m.choices[best[x]], &f.m.choices[best[y]]
		return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(b.devices, a.devices), cmp.Compare(x, y))
	})
	first := 0
	var free []int
	for _, i := range order {
		o := &f.m.choices[best[i]]
		v, g := int(o.typ), int(o.devices)
		for first < len(f.nodes) && f.nodes[first].Type != v {
			first++
		}
		n := first
		for n < len(f.nodes) && free[n] < g {
			n++
		}
		if n == len(f.nodes) {
			if len(f.nodes) == f.m.k || f.ran[v] == f.m.p.most(v) {
				continue
			}
			f.nodes, free = append(f.nodes, Node{Type: v}), append(free, f.m.p.Types[v].Devices)
			f.ran[v]++
		}
		free[n] -= g
		f.on[i] = n
		f.nodes[n].Shares = append(f.nodes[n].Shares, Share{i, g})
	}
	f.complete()
	f.cost = f.value()
}

// load begins with a plan; false if it breaks a rule.
func (f *fill) load(plan Plan) bool {
	if plan == nil {
		return false
	}
	if _, err := Eval(f.m.p, plan); err != nil {
		return false
	}
	for n, node := range plan {
		f.nodes = append(f.nodes, Node{node.Type, slices.Clone(node.Shares)})
		f.ran[node.Type]++
		for _, s := range node.Shares {
			f.on[s.Job] = n
		}
	}
	f.cost = f.value()
	return true
}

// complete runs the nodes that have to run besides, where the problem is Full.
func (f *fill) complete() {
	for f.m.p.Full && len(f.nodes) < f.m.k {
		at, least := -1, math.Inf(1)
		for v, t := range f.m.p.Types {
			if c := t.Idle * float64(t.Devices); f.ran[v] < f.m.p.most(v) && c < least {
				at, least = v, c
			}
		}
		f.ran[at]++
		f.nodes = append(f.nodes, Node{Type: at})
	}
}

func (f *fill) value() float64 {
	cost := 0.0
	for i, n := range f.on {
		if n < 0 {
			cost += f.m.p.Jobs[i].Wait
		}
	}
	for _, n := range f.nodes {
		cost += f.nodeCost(n)
	}
	return cost
}

func (f *fill) nodeCost(n Node) float64 {
	t := f.m.p.Types[n.Type]
	idle, cost := t.Devices, 0.0
	for _, s := range n.Shares {
		idle -= s.Devices
		cost += f.m.p.Jobs[s.Job].Costs[n.Type][s.Devices-1]
	}
	return cost + t.Idle*float64(idle)
}

// gain is what a change has to be worth, so that rounding does not make the search go round.
const gain = 1e-9

// sweeps is how often all nodes are gone through.
const sweeps = 12

// improve fills nodes anew, one after the other, until none gets better or the plan is as good as the bound.
func (f *fill) improve() {
	for range sweeps {
		if f.done() {
			return
		}
		f.narrow()
		before := f.cost
		for n := 0; n < len(f.nodes); n++ {
			f.refill(n)
		}
		f.runMore()
		f.dropIdle()
		if before-f.cost <= gain {
			return
		}
	}
}

// runMore runs further nodes with jobs that wait, as long as that pays.
func (f *fill) runMore() {
	for !f.m.p.Full && len(f.nodes) < f.m.k {
		n := len(f.nodes)
		f.nodes = append(f.nodes, Node{Type: -1})
		if f.refill(n); f.nodes[n].Type < 0 {
			f.nodes = f.nodes[:n]
			return
		}
	}
}

// done reports whether the plan costs no more than the bound.
func (f *fill) done() bool { return f.cost-f.bound <= gain*math.Max(1, math.Abs(f.bound)) }

// narrow leaves each job the choices that a plan better than this one can have: those that
// lose no more at the prices than what lies between this plan and the bound.
func (f *fill) narrow() {
	gap := f.cost - f.bound + gain
	for i := range f.open {
		f.open[i] = f.open[i][:0]
		for c := f.m.from[i] + 1; c < f.m.from[i+1]; c++ {
			if f.m.loss(c, f.net, f.least[i]) <= gap {
				f.open[i] = append(f.open[i], f.m.choices[c])
			}
		}
	}
}

// dropIdle ends nodes on which nothing runs, unless they have to.
func (f *fill) dropIdle() {
	if f.m.p.Full {
		return
	}
	for n := len(f.nodes) - 1; n >= 0; n-- {
		if len(f.nodes[n].Shares) > 0 {
			continue
		}
		last := len(f.nodes) - 1
		if v := f.nodes[n].Type; v >= 0 {
			f.ran[v]--
			f.cost -= f.nodeCost(f.nodes[n])
		}
		f.nodes[n] = f.nodes[last]
		for _, s := range f.nodes[n].Shares {
			f.on[s.Job] = n
		}
		f.nodes = f.nodes[:last]
	}
}

// refill gives a node the type, the jobs and the split that cost least, of its jobs and those that wait.
func (f *fill) refill(n int) {
	var jobs []int
	for i, at := range f.on {
		if (at == n || at < 0) && len(f.open[i]) > 0 {
			jobs = append(jobs, i)
		}
	}
	old := f.nodes[n]
	now := 0.0 // beside all of them waiting
	if old.Type >= 0 {
		now = f.nodeCost(old)
	}
	for _, s := range old.Shares {
		now -= f.m.p.Jobs[s.Job].Wait
	}
	best, least := -1, now-gain
	for v := range f.m.p.Types {
		if v != old.Type && f.ran[v] >= f.m.p.most(v) {
			continue
		}
		if c := f.knapsack(v, jobs, false); c < least {
			best, least = v, c
		}
	}
	if best < 0 {
		return
	}
	f.knapsack(best, jobs, true)
	f.put(n, Node{Type: best, Shares: f.shares(best, jobs)})
	f.cost += least - now
}

// put replaces a node.
func (f *fill) put(n int, node Node) {
	old := f.nodes[n]
	if old.Type >= 0 {
		f.ran[old.Type]--
	}
	for _, s := range old.Shares {
		f.on[s.Job] = -1
	}
	f.ran[node.Type]++
	for _, s := range node.Shares {
		f.on[s.Job] = n
	}
	f.nodes[n] = node
}

// knapsack is what a node of a type costs with the best of the jobs, beside all of them
// waiting. With keep, it leaves in picks what each took.
func (f *fill) knapsack(v int, jobs []int, keep bool) float64 {
	t := f.m.p.Types[v]
	s := t.Devices
	f.table = append(f.table[:0], make([]float64, s+1)...) // by devices in use at most
	if keep {
		f.picks = append(f.picks[:0], make([]uint8, len(jobs)*(s+1))...)
	}
	for n, i := range jobs {
		wait := f.m.p.Jobs[i].Wait
		for c := s; c > 0; c-- {
			least := f.table[c]
			for _, o := range f.open[i] {
				if int(o.typ) != v || int(o.devices) > c {
					continue
				}
				// An idle device costs; one in use spares that.
				if x := f.table[c-int(o.devices)] + (o.cost - wait - t.Idle*float64(o.devices)); x < least {
					least = x
					if keep {
						f.picks[n*(s+1)+c] = uint8(o.devices)
					}
				}
			}
			f.table[c] = least
		}
	}
	return f.table[s] + t.Idle*float64(s)
}

// shares reads what the last knapsack kept.
func (f *fill) shares(v int, jobs []int) []Share {
	s := f.m.p.Types[v].Devices
	var out []Share
	c := s
	for n, job := range slices.Backward(jobs) {
		if g := int(f.picks[n*(s+1)+c]); g > 0 {
			out = append(out, Share{job, g})
			c -= g
		}
	}
	slices.SortFunc(out, func(a, b Share) int { return cmp.Compare(a.Job, b.Job) })
	return out
}

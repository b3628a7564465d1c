package capacity

import (
	"cmp"
	"math"
	"slices"
)

const (
	// coreJobs is how many jobs, those whose choice is nearest to a tie, are decided together.
	coreJobs = 64
	// coreChoices is how many choices each of them has at most.
	coreChoices = 6
	// coreLabels is how many ways to choose so far are kept: those with the least loss, one
	// for each number of devices that they take.
	coreLabels = 600
	// coreLanes is how many types' devices a label counts.
	coreLanes = 8
	// laneMiddle stands for no change in a lane.
	laneMiddle = 128
	// corePacked is how many of the cheapest choices are tried on nodes.
	corePacked = 8
)

// label is one way in which the jobs so far choose: how many devices of each type more
// or less than at the prices' own choices, and what it costs more.
type label struct {
	lanes  uint64 // a byte a type: laneMiddle + the change
	loss   float64
	cost   float64
	parent int32
	choice int32
}

// core is the jobs whose choice is open, and the labels of each stage.
type core struct {
	m     *market
	net   []float64 // by type: price less idle cost of a device
	lane  []int     // by type; −1 = none
	types []int     // by lane
	jobs  []coreJob
	stage [][]label
}

type coreJob struct {
	job     int
	choices []int32 // into market.choices, the best first
	losses  []float64
	second  float64
}

// losses of a choice: what it is dearer than the job's best at the prices.
func (m *market) loss(c int, net []float64, least float64) float64 {
	o := &m.choices[c]
	return o.cost + float64(float64(o.devices)*net[o.typ]) - least
}

// newCore takes in the jobs whose second choice loses least.
func newCore(m *market, net []float64) *core {
	c := &core{m: m, net: net, lane: make([]int, len(m.p.Types))}
	for v := range c.lane {
		c.lane[v] = -1
	}
	all := make([]coreJob, 0, len(m.best))
	for i, b := range m.best {
		least := m.loss(int(b), net, 0)
		second := math.Inf(1)
		for k := m.from[i]; k < m.from[i+1]; k++ {
			if k != int(b) {
				second = min(second, m.loss(k, net, least))
			}
		}
		if !math.IsInf(second, 1) {
			all = append(all, coreJob{job: i, second: second})
		}
	}
	slices.SortFunc(all, func(a, b coreJob) int { return cmp.Or(cmp.Compare(a.second, b.second), cmp.Compare(a.job, b.job)) })
	c.jobs = all[:min(len(all), coreJobs)]
	for n := range c.jobs {
		c.open(&c.jobs[n])
	}
	return c
}

// open lists a job's best choices, those of types that have a lane or may still have one.
func (c *core) open(j *coreJob) {
	m, best := c.m, int(c.m.best[j.job])
	least := m.loss(best, c.net, 0)
	for k := m.from[j.job]; k < m.from[j.job+1]; k++ {
		j.choices = append(j.choices, int32(k))
	}
	slices.SortFunc(j.choices, func(a, b int32) int {
		return cmp.Or(cmp.Compare(m.loss(int(a), c.net, least), m.loss(int(b), c.net, least)), cmp.Compare(a, b))
	})
	if i := slices.Index(j.choices, int32(best)); i > 0 { // a tie
		j.choices = slices.Insert(slices.Delete(j.choices, i, i+1), 0, int32(best))
	}
	j.choices = slices.DeleteFunc(j.choices, func(k int32) bool { return !c.counted(&m.choices[k]) })
	j.choices = j.choices[:min(len(j.choices), coreChoices)]
	for _, k := range j.choices {
		j.losses = append(j.losses, m.loss(int(k), c.net, least))
	}
}

// counted reports whether a choice's devices can be counted, and gives its type a lane if there is one left.
func (c *core) counted(o *choice) bool {
	if o.devices == 0 || c.lane[o.typ] >= 0 {
		return true
	}
	if len(c.types) == coreLanes {
		return false
	}
	c.lane[o.typ] = len(c.types)
	c.types = append(c.types, int(o.typ))
	return true
}

// search makes the labels of all stages.
func (c *core) search() {
	start := uint64(0)
	for range coreLanes {
		start = start<<8 | laneMiddle
	}
	c.stage = append(c.stage, []label{{lanes: start, parent: -1, choice: -1}})
	at := map[uint64]int{}
	for _, j := range c.jobs {
		clear(at)
		before := c.stage[len(c.stage)-1]
		next := make([]label, 0, 2*coreLabels)
		for n := range before {
			for k, choice := range j.choices {
				l := before[n]
				var ok bool
				if l.lanes, ok = c.moved(l.lanes, j.choices[0], choice); !ok {
					continue
				}
				l.loss += j.losses[k]
				l.cost += c.m.choices[choice].cost - c.m.choices[j.choices[0]].cost
				l.parent, l.choice = int32(n), choice
				if old, there := at[l.lanes]; !there {
					at[l.lanes] = len(next)
					next = append(next, l)
				} else if l.loss < next[old].loss {
					next[old] = l
				}
			}
		}
		slices.SortFunc(next, func(a, b label) int { return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.lanes, b.lanes)) })
		c.stage = append(c.stage, next[:min(len(next), coreLabels)])
	}
}

// moved changes the lanes as if a job took another choice; false = that cannot be counted.
func (c *core) moved(lanes uint64, from, to int32) (uint64, bool) {
	for _, x := range [...]struct {
		choice int32
		sign   int
	}{{from, -1}, {to, 1}} {
		o := &c.m.choices[x.choice]
		if o.devices == 0 {
			continue
		}
		shift := 8 * c.lane[o.typ]
		n := int(lanes>>shift&0xff) + x.sign*int(o.devices)
		if n < 0 || n > 0xff {
			return 0, false
		}
		lanes = lanes&^(0xff<<shift) | uint64(n)<<shift
	}
	return lanes, true
}

// devices is how many of each type a label's choices take, with those of all other jobs.
func (c *core) devices(l *label, used []int) []int {
	u := slices.Clone(used)
	for n, v := range c.types {
		u[v] += int(l.lanes>>(8*n)&0xff) - laneMiddle
	}
	return u
}

// plans yields choices of all jobs that need no more nodes than there are, the cheapest first.
func (c *core) plans(used []int, yield func(best []int32) bool) {
	last := c.stage[len(c.stage)-1]
	type ranked struct {
		label int
		cost  float64
	}
	var fitting []ranked
	for n := range last {
		if idle, ok := c.m.p.idle(c.devices(&last[n], used), c.m.k); ok {
			fitting = append(fitting, ranked{n, last[n].cost + idle})
		}
	}
	slices.SortFunc(fitting, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.label, b.label)) })
	for _, r := range fitting[:min(len(fitting), corePacked)] {
		best := slices.Clone(c.m.best)
		n := int32(r.label)
		for s := len(c.jobs); s > 0; s-- {
			l := &c.stage[s][n]
			best[c.jobs[s-1].job] = l.choice
			n = l.parent
		}
		if !yield(best) {
			return
		}
	}
}

// idle is what the idle devices cost if so many are in use, on the fewest nodes; false = there are too few nodes.
func (p *Problem) idle(used []int, k int) (cost float64, ok bool) {
	need := 0
	for v, u := range used {
		s := p.Types[v].Devices
		n := (u + s - 1) / s
		if u < 0 || n > p.most(v) {
			return 0, false
		}
		need += n
		cost += p.Types[v].Idle * float64(n*s-u)
	}
	if need > k {
		return 0, false
	}
	if p.Full {
		for left := k - need; left > 0; left-- { // few, and of the kind that costs least
			cost += p.leastIdle()
		}
	}
	return cost, true
}

// leastIdle is what an idle node costs at least.
func (p *Problem) leastIdle() float64 {
	least := math.Inf(1)
	for _, t := range p.Types {
		least = min(least, t.Idle*float64(t.Devices))
	}
	return least
}

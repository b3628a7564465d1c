package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/capacity"
	"github.com/bellows-ml/bellows/cluster"
)

// jahani runs those nodes, and on them those jobs with so many devices each, that cost
// the least in lateness, waiting and nodes' prices (Jahani et al., CCCS 2019, section
// IV), decided anew every interval and soon after jobs and nodes come and go. A node
// that has a price (--price-per-hour) stays idle where running it is dearer than waiting.
//
// The nodes are there, so that each type has as many as the cluster: those with the same
// price, devices and GPU model that are free or may be freed. Each job runs on one node.
// Three things are added to the paper's model: what waits is paid for later, and an idle
// device at its share of the price (see package capacity), and a little for each
// hour that a job runs, so that devices that cost nothing are used. A job whose smallest
// size is more than any node has starts once so many devices are idle, on several nodes, and keeps them.
//
// Where devices are of several models, a plan for all of them chooses each job's (Choose), and then each
// model's devices are planned for by themselves.
//
// Where nothing can be planned, as of more jobs or nodes than package capacity takes, prices
// do not count: what runs stays, and what waits starts on idle devices, in the order of deadlines.
type jahani struct{}

const (
	// jahaniHorizon is H: what waits is decided about again within an hour, whatever the interval.
	jahaniHorizon = time.Hour
	// jahaniDue is when a job without a deadline is taken to be due, from its submission on.
	jahaniDue = 24 * time.Hour
	// jahaniHaste is what an hour of running costs, in hours of lateness.
	jahaniHaste = 0.01
)

// Name implements allocator.Policy.
func (jahani) Name() string { return "jahani" }

// Prompt implements allocator.Prompt.
func (jahani) Prompt() bool { return true }

func (jahani) leavesIdle() {}

func (jahani) movesAgain() {}

// planFleet plans the question's nodes for its movable jobs.
func planFleet(in allocator.Input) (m *fleet, movable []int, plan capacity.Plan, err error) {
	m = &fleet{d: newDraft(in)}
	m.d.expectWork()
	movable = m.keepWide()
	m.group()
	plan, err = m.solve(movable)
	return m, movable, plan, err
}

// Allocate implements allocator.Policy.
func (jahani) Allocate(in allocator.Input) allocator.Output {
	m, movable, plan, err := planFleet(in)
	if err != nil {
		plan, m.unplanned = m.present(movable), err.Error()
	}
	in.Jobs = m.d.jobs
	return m.answer(in, movable, m.onNodes(plan, movable))
}

// Choose implements allocator.Chooser: as types of nodes differ in their prices and in how fast
// jobs are on them, one plan for all says on which model's each job costs least.
func (jahani) Choose(in allocator.Input) (models map[cluster.JobID]string, binding bool) {
	in.Jobs = slices.Clone(in.Jobs)
	for i := range in.Jobs {
		in.Jobs[i].Models = allocator.Preferring(in.Jobs[i].Models)
	}
	m, movable, plan, err := planFleet(in)
	if err != nil {
		return nil, false
	}
	out := map[cluster.JobID]string{}
	for _, i := range movable { // what waits, waits for what is cheapest for it
		if j := m.d.jobs[i]; !m.wide(j) {
			out[j.ID] = m.cheapest(j)
		}
	}
	for _, n := range plan {
		for _, s := range n.Shares {
			out[m.d.jobs[movable[s.Job]].ID] = m.types[n.Type].model
		}
	}
	return out, true
}

// keepWide clears the movable jobs, but for those that run on several nodes because one is
// too small for them: there is no plan for these.
func (m *fleet) keepWide() []int {
	_, movable := m.d.clearMovable()
	return slices.DeleteFunc(movable, func(i int) bool {
		j := m.d.jobs[i]
		return m.wide(j) && j.Workers > 0 && m.d.states[i].stays && m.d.set(i, j.Workers)
	})
}

// wide reports whether no node has devices enough for the job's smallest size.
func (m *fleet) wide(j allocator.JobView) bool {
	return !slices.ContainsFunc(m.d.in.Nodes, func(n cluster.Node) bool { return len(n.Usable()) >= j.Sizes[0] })
}

// fleet is a draft, and the nodes of its question by type.
type fleet struct {
	d     *draft
	types []fleetType
	index map[cluster.NodeID]int // of types
	free  map[cluster.NodeID]int // devices that no fixed job holds
	price map[cluster.NodeID]float64
	// unplanned is why there is no plan; empty = there is one.
	unplanned string
}

// group sorts the nodes into types, as far as they are free of jobs that keep theirs.
func (m *fleet) group() {
	d := m.d
	m.index, m.free, m.price = map[cluster.NodeID]int{}, map[cluster.NodeID]int{}, map[cluster.NodeID]float64{}
	for _, n := range d.in.Nodes {
		m.free[n.ID], m.price[n.ID] = len(n.Usable()), n.PricePerHour
	}
	runs := map[cluster.NodeID]bool{}
	for i, j := range d.jobs {
		if d.counts[i] > 0 { // it keeps its devices, and its nodes run anyway
			for _, node := range d.devices.Held(j) {
				m.free[node]--
				runs[node] = true
			}
		}
	}
	nodes := slices.Clone(d.in.Nodes)
	slices.SortFunc(nodes, func(a, b cluster.Node) int { return cmp.Compare(a.ID, b.ID) })
	for _, n := range nodes {
		if m.free[n.ID] < 1 {
			continue
		}
		t := fleetType{devices: min(m.free[n.ID], capacity.MaxDevices), price: n.PricePerHour, model: modelOf(n), nodes: []cluster.NodeID{n.ID}}
		if runs[n.ID] {
			t.price = 0
		}
		m.types = append(m.types, t)
	}
	m.types = typesOf(m.types, capacity.MaxTypes)
	for v, t := range m.types {
		for _, id := range t.nodes {
			m.index[id] = v
		}
	}
}

// solve asks package capacity about the movable jobs, which its plan names by their place in
// the list. An error says why it has no plan.
func (m *fleet) solve(movable []int) (capacity.Plan, error) {
	p := &capacity.Problem{}
	var prices []float64
	for _, t := range m.types {
		p.Types = append(p.Types, capacity.Type{Devices: t.devices, Most: len(t.nodes)})
		prices = append(prices, t.price)
		p.Nodes += len(t.nodes)
	}
	switch {
	case len(p.Types) == 0 || len(movable) == 0:
		return nil, nil // nothing to decide
	case len(movable) > capacity.MaxJobs:
		return nil, fmt.Errorf("%d jobs are more than the %d of a plan", len(movable), capacity.MaxJobs)
	case p.Nodes > capacity.MaxNodes:
		return nil, fmt.Errorf("%d nodes are more than the %d of a plan", p.Nodes, capacity.MaxNodes)
	}
	terms := make([]capacity.Terms, len(movable))
	for k, i := range movable {
		terms[k] = m.terms(m.d.jobs[i], prices)
	}
	capacity.PriceIdle(p.Types, prices, terms)
	for k := range terms {
		j := terms[k].Job(p.Types)
		haste := jahaniHaste * terms[k].Weight
		for v, times := range terms[k].Times {
			for g, t := range times {
				if !math.IsInf(t, 1) {
					j.Costs[v][g] += haste * t
				}
			}
		}
		j.Wait += haste * (terms[k].Longest + jahaniHorizon.Hours())
		p.Jobs = append(p.Jobs, j)
	}
	p.Present = m.present(movable)
	r, err := capacity.Solve(p)
	return r.Plan, err
}

// terms are what a job's choices cost.
func (m *fleet) terms(j allocator.JobView, prices []float64) capacity.Terms {
	t := capacity.Terms{
		Deadline: due(j).Sub(m.d.in.Now).Hours(), Weight: ownWeight(j), Prices: prices,
		Horizon: jahaniHorizon.Hours(), Times: make([][]float64, len(m.types)), Repaid: true,
	}
	t.Postponed = capacity.PostponedWeight * t.Weight
	t.Cheapest, t.Elsewhere = m.later(j)
	at, now := m.stands(j)
	longest := 0.0
	for v, x := range m.types {
		if !slices.ContainsFunc(x.nodes, func(n cluster.NodeID) bool { return !slices.Contains(j.Excluded, n) }) {
			continue
		}
		on := j.On(x.model)
		t.Times[v] = make([]float64, x.devices)
		for g := range t.Times[v] {
			t.Times[v][g] = math.Inf(1)
		}
		for _, k := range j.Sizes {
			if k > x.devices {
				break
			}
			cost := j.StartCost(k).Seconds()
			longest = max(longest, (work(on)/speedAt(on, k)+cost)/time.Hour.Seconds())
			if j.Workers > 0 {
				cost *= flowtimeCharge
			}
			t.Times[v][k-1] = (work(on)/speedAt(on, k) + cost) / time.Hour.Seconds()
			if now && v == m.index[at] && k == j.Workers {
				t.Times[v][k-1] = work(on) / staying(on) / time.Hour.Seconds()
			}
		}
	}
	if t.Longest = longest; j.Workers > 0 { // one that is only a little later than it does not take its place
		t.Longest += jahaniHorizon.Hours()
	}
	return t
}

// later is what a job costs at the least on any node of the cluster, free or not: between two
// intervals other jobs may hold a cheap node for a while only.
func (m *fleet) later(j allocator.JobView) (cost float64, ok bool) {
	cost, _ = m.least(j)
	return cost, !math.IsInf(cost, 1)
}

// cheapest is the model of the devices on which a job costs least, of equals that on which it ends first.
func (m *fleet) cheapest(j allocator.JobView) string {
	_, model := m.least(j)
	return model
}

// least is the cost of the node's time that a job takes, where that is least, and the model of its devices.
func (m *fleet) least(j allocator.JobView) (cost float64, model string) {
	cost, ends := math.Inf(1), math.Inf(1)
	for _, n := range m.d.in.Nodes {
		devices := len(n.Usable())
		if devices < j.Sizes[0] || slices.Contains(j.Excluded, n.ID) {
			continue
		}
		on := j.On(modelOf(n))
		for _, k := range j.Sizes {
			if k > devices {
				break
			}
			takes := (work(on)/speedAt(on, k) + j.StartCost(k).Seconds()) / time.Hour.Seconds()
			if c := n.PricePerHour * takes; c < cost || c == cost && takes < ends {
				cost, ends, model = c, takes, modelOf(n)
			}
		}
	}
	return cost, model
}

// modelOf is the model of a node's devices; of several that of the first that is usable.
func modelOf(n cluster.Node) string {
	for _, d := range n.Devices {
		if d.Health == cluster.Healthy {
			return d.ModelName()
		}
	}
	return ""
}

// due is a job's deadline, or what is taken for it.
func due(j allocator.JobView) time.Time {
	if j.Deadline.IsZero() {
		return j.SubmittedAt.Add(jahaniDue)
	}
	return j.Deadline
}

// stands is the one node on which a job could stay as it is; false if there is none.
func (m *fleet) stands(j allocator.JobView) (cluster.NodeID, bool) {
	if len(j.Present.Placements) != 1 || !m.d.devices.Stays(j) {
		return "", false
	}
	n := j.Present.Placements[0].Node
	_, open := m.index[n]
	return n, open && j.Workers <= m.free[n]
}

// present is the plan in force of the movable jobs that could stay as they are.
func (m *fleet) present(movable []int) capacity.Plan {
	at := map[cluster.NodeID]int{}
	plan := capacity.Plan{}
	for k, i := range movable {
		j := m.d.jobs[i]
		n, ok := m.stands(j)
		if !ok || !slices.Contains(j.Sizes, j.Workers) {
			continue
		}
		if _, there := at[n]; !there {
			at[n] = len(plan)
			plan = append(plan, capacity.Node{Type: m.index[n]})
		}
		node := &plan[at[n]]
		node.Shares = append(node.Shares, capacity.Share{Job: k, Devices: j.Workers})
	}
	return plan
}

// onNodes chooses a node for each of the plan's, that which most of its workers have
// already, and returns it for each of d.jobs that is to run, with its number.
func (m *fleet) onNodes(plan capacity.Plan, movable []int) map[int]capacityShare {
	type pair struct {
		node, common int
		id           cluster.NodeID
	}
	var pairs []pair
	for n, node := range plan {
		for _, id := range m.types[node.Type].nodes {
			p := pair{node: n, id: id}
			for _, s := range node.Shares {
				switch at, ok := m.stands(m.d.jobs[movable[s.Job]]); {
				case slices.Contains(m.d.jobs[movable[s.Job]].Excluded, id):
					p.common -= capacity.MaxDevices // it would have to wait
				case ok && at == id:
					p.common += s.Devices
				}
			}
			pairs = append(pairs, p)
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.common, a.common) })
	out, done, taken := map[int]capacityShare{}, make([]bool, len(plan)), map[cluster.NodeID]bool{}
	for _, p := range pairs {
		if done[p.node] || taken[p.id] {
			continue
		}
		done[p.node], taken[p.id] = true, true
		for _, s := range plan[p.node].Shares {
			if i := movable[s.Job]; !slices.Contains(m.d.jobs[i].Excluded, p.id) {
				out[i] = capacityShare{p.id, s.Devices}
			}
		}
	}
	return out
}

// capacityShare is a job's node and its number of devices there.
type capacityShare struct {
	node    cluster.NodeID
	devices int
}

// answer runs the jobs where they were planned, and starts others on what costs nothing, or
// where there is no plan on anything.
func (m *fleet) answer(in allocator.Input, movable []int, on map[int]capacityShare) allocator.Output {
	in.Jobs = slices.Clone(in.Jobs)
	var priced []cluster.NodeID
	for _, n := range in.Nodes {
		if n.PricePerHour > 0 {
			priced = append(priced, n.ID)
		}
	}
	slices.Sort(priced)
	for _, i := range movable {
		j := &in.Jobs[i]
		if s, ok := on[i]; ok {
			j.Excluded = allocator.Decision{Node: s.node}.Closed(in.Nodes, j.Excluded)
		} else if !m.wide(*j) && m.unplanned == "" {
			j.Excluded = slices.Compact(slices.Sorted(slices.Values(slices.Concat(j.Excluded, priced))))
		}
	}
	next := &fleet{d: newDraft(in)}
	next.keepWide()
	d := next.d
	for _, i := range movable {
		if s, ok := on[i]; ok {
			d.put(i, s.devices)
		}
	}
	d.startFitting(m.byDue(movable))
	out := d.answer()
	for i := range out.Decisions {
		m.explain(&out.Decisions[i], m.d.jobs[i], d.idle, on[i])
	}
	return out
}

func (m *fleet) byDue(jobs []int) []int {
	order := slices.Clone(jobs)
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := m.d.jobs[x], m.d.jobs[y]
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), due(a).Compare(due(b)))
	})
	return order
}

// explain puts the node into a decision, and says why.
func (m *fleet) explain(d *allocator.Decision, j allocator.JobView, idle int, s capacityShare) {
	at, stays := m.stands(j)
	switch {
	case d.Workers == 0:
		if k := j.Sizes[0]; !m.wide(j) && k <= max(0, idle) && m.unplanned == "" {
			d.Reason = fmt.Sprintf("waits: %s idle, on nodes whose price (%s an hour) is more than its waiting costs; due %s",
				areDevices(idle), money(m.leastPrice(j)), dueText(due(j).Sub(m.d.in.Now)))
		}
	case s.devices > 0:
		d.Node = s.node
		if d.Workers != j.Workers || !stays || at != s.node {
			d.Reason = "least cost of lateness and nodes: " + string(s.node)
			if p := m.price[s.node]; p > 0 {
				d.Reason += ", " + money(p) + " an hour"
			}
		}
	case d.Workers != j.Workers && m.unplanned != "":
		d.Reason = "prices do not count: " + m.unplanned
	case d.Workers != j.Workers:
		d.Reason = "starts on devices that cost nothing more"
	}
}

// leastPrice is that of the cheapest node with a price that could run the job.
func (m *fleet) leastPrice(j allocator.JobView) float64 {
	least := math.Inf(1)
	for _, t := range m.types {
		if t.price > 0 && t.devices >= j.Sizes[0] {
			least = min(least, t.price)
		}
	}
	return least
}

// dueText says when a job is due, in the unit that suits.
func dueText(in time.Duration) string {
	switch hours := int(math.Round(in.Hours())); {
	case in < 0:
		return "already"
	case hours >= 2:
		return fmt.Sprintf("in %d h", hours)
	}
	return fmt.Sprintf("in %d min", int(math.Round(in.Minutes())))
}

func areDevices(n int) string {
	if n == 1 {
		return "1 device is"
	}
	return fmt.Sprintf("%d devices are", n)
}

func money(v float64) string { return fmt.Sprintf("%.2f", v) }

package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Placed says how close together the devices of jobs were, over the time of a run. Nodes that
// are gone count as idle. All of it is null where nodes have one device.
type Placed struct {
	// Fragmentation is the share of all idle device time on nodes of which other devices were
	// in use (record.Census.Fragmentation, over time); null if no device was ever idle.
	Fragmentation *float64 `json:"fragmentation"`
	// Apart is the share of the device time of worlds with two workers or more in which they were on
	// more nodes than they need; null if there was none.
	Apart *float64 `json:"apart"`
	// ApartInGroups is the same of worlds that fit into one group of a node's devices, and were in
	// several; null also where devices are in no groups.
	ApartInGroups *float64 `json:"apart_in_groups"`
}

// spread follows where worlds are, and where best fit would have put them. The latter gets the same
// sizes at the same times: it has no part in what is decided.
type spread struct {
	real, plain *ground
	held        map[*job]map[cluster.NodeID]bool // nodes with a grant for the job
}

// spot is one device: its node, and its number there.
type spot struct{ node, device int }

func newSpread(cfg Config) *spread {
	return &spread{real: newGround(cfg), plain: newGround(cfg), held: map[*job]map[cluster.NodeID]bool{}}
}

// pass lets time pass.
func (s *spread) pass(d time.Duration) {
	s.real.pass(d.Seconds())
	s.plain.pass(d.Seconds())
}

// take takes in a transaction of the leader: a world has its devices from its plan
// until no node has a grant for the job.
func (s *spread) take(w *world, ops []record.Op) {
	var touched []*job
	for _, op := range ops {
		at := record.Locate(op.Key)
		if at.Kind != record.KindGrant {
			continue
		}
		j := w.byID[at.Job]
		if s.held[j] == nil {
			s.held[j] = map[cluster.NodeID]bool{}
		}
		if op.Delete {
			delete(s.held[j], at.Node)
		} else {
			s.held[j][at.Node] = true
		}
		if !slices.Contains(touched, j) {
			touched = append(touched, j)
		}
	}
	for _, j := range touched {
		if s.real.put(j, nil); len(s.held[j]) == 0 {
			delete(s.held, j)
			s.plain.put(j, nil)
		}
	}
	for _, j := range touched {
		if s.held[j] == nil {
			continue
		}
		var at []spot
		for _, m := range j.gen.world.Members {
			n := w.node(m.Node)
			for _, d := range m.Devices {
				at = append(at, spot{n.index, deviceNumber(d)})
			}
		}
		s.real.put(j, at)
		if len(s.plain.worlds[j].at) != len(at) {
			s.plain.put(j, nil)
			s.plain.put(j, s.plain.bestFit(len(at)))
		}
	}
}

// deviceNumber is the number of a device on its node, which addNode has written into its name.
func deviceNumber(d cluster.DeviceID) int {
	_, number, _ := strings.Cut(string(d), "-")
	n, err := strconv.Atoi(number)
	if err != nil {
		panic("sim: device " + string(d))
	}
	return n
}

// ground is who has which device, and what that has come to over time.
type ground struct {
	group   []string // of the devices of a node, by number
	largest int      // devices of the largest group
	taken   [][]bool // by node and device
	used    []int    // devices, by node
	worlds  map[*job]placedWorld

	now, sum measures // now in devices, sum in device seconds
}

type placedWorld struct {
	at []spot
	measures
}

// measures are counts of devices, or device seconds.
type measures struct{ idle, scattered, several, apart, grouped, apartInGroups float64 }

func (m *measures) add(o measures, times float64) {
	m.idle += times * o.idle
	m.scattered += times * o.scattered
	m.several += times * o.several
	m.apart += times * o.apart
	m.grouped += times * o.grouped
	m.apartInGroups += times * o.apartInGroups
}

func newGround(cfg Config) *ground {
	g := &ground{used: make([]int, cfg.Nodes), worlds: map[*job]placedWorld{}}
	g.now.idle = float64(cfg.Nodes * cfg.DevicesPerNode)
	for range cfg.Nodes {
		g.taken = append(g.taken, make([]bool, cfg.DevicesPerNode))
	}
	devices := make([]cluster.Device, cfg.DevicesPerNode)
	cfg.Groups.Apply(devices)
	sizes := map[string]int{}
	for _, d := range devices {
		g.group = append(g.group, d.Group)
		if sizes[d.Group]++; d.Group != "" {
			g.largest = max(g.largest, sizes[d.Group])
		}
	}
	return g
}

func (g *ground) pass(seconds float64) { g.sum.add(g.now, seconds) }

// put gives a job these devices instead of those that it has.
func (g *ground) put(j *job, at []spot) {
	old := g.worlds[j]
	g.now.add(old.measures, -1)
	for _, x := range old.at {
		g.mark(x, false)
	}
	delete(g.worlds, j)
	if len(at) == 0 {
		return
	}
	w := placedWorld{at: at, measures: g.measure(at)}
	g.now.add(w.measures, 1)
	for _, x := range at {
		g.mark(x, true)
	}
	g.worlds[j] = w
}

// mark marks a device as taken or free, and counts what is idle.
func (g *ground) mark(x spot, taken bool) {
	g.now.scattered -= g.scattered(x.node)
	if g.taken[x.node][x.device] = taken; taken {
		g.used[x.node]++
		g.now.idle--
	} else {
		g.used[x.node]--
		g.now.idle++
	}
	g.now.scattered += g.scattered(x.node)
}

// scattered is how many devices of a node are free beside others that are not.
func (g *ground) scattered(node int) float64 {
	if g.used[node] == 0 {
		return 0
	}
	return float64(len(g.group) - g.used[node])
}

// measure is what a world on these devices counts.
func (g *ground) measure(at []spot) (m measures) {
	k := len(at)
	if k < 2 {
		return m
	}
	type part struct {
		node  int
		group string
	}
	nodes, groups := map[int]bool{}, map[part]bool{}
	for _, x := range at {
		nodes[x.node], groups[part{x.node, g.group[x.device]}] = true, true
	}
	if m.several = float64(k); len(nodes) > goodput.NodesFor(k, len(g.group)) {
		m.apart = float64(k)
	}
	if k > g.largest {
		return m
	}
	if m.grouped = float64(k); len(groups) > 1 {
		m.apartInGroups = float64(k)
	}
	return m
}

// bestFit chooses free devices for k workers: the first ones of the node with the fewest
// that has enough, else all of the node with the most, and so on.
func (g *ground) bestFit(k int) (at []spot) {
	had := map[int]bool{}
	for k > 0 {
		best := -1
		for n, used := range g.used {
			free := len(g.group) - used
			if had[n] || free == 0 {
				continue
			}
			if best < 0 || fitsBetter(free, len(g.group)-g.used[best], k) {
				best = n
			}
		}
		had[best] = true
		for d, taken := range g.taken[best] {
			if !taken && k > 0 {
				at = append(at, spot{best, d})
				k--
			}
		}
	}
	return at
}

// fitsBetter reports whether a node with so many free devices suits k workers better than one with others.
func fitsBetter(free, others, k int) bool {
	if free < k || others < k {
		return free > others
	}
	return free < others
}

// placed is what it has come to.
func (g *ground) placed() Placed {
	if len(g.group) < 2 {
		return Placed{}
	}
	share := func(part, of float64) *float64 {
		if of <= 0 {
			return nil
		}
		v := part / of
		return &v
	}
	return Placed{
		Fragmentation: share(g.sum.scattered, g.sum.idle), Apart: share(g.sum.apart, g.sum.several),
		ApartInGroups: share(g.sum.apartInGroups, g.sum.grouped),
	}
}

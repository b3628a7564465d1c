package place

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// Count is the number of workers of one job.
type Count struct {
	Job       cluster.JobID
	Workers   int // 0 = no devices
	BatchSize int
	Excluded  []cluster.NodeID // cannot run the job
	Model     string           // of all of its devices; empty = any
	// Keep holds the job to its devices as long as they are there, healthy or not:
	// it is pinned, or running jobs are not moved now.
	Keep bool
	// MoveCost is what it costs to have Repair move the job, and SpanCost what the job loses
	// where it is not as close together as it can be, both as time of its devices in seconds; 0 = it
	// is not moved, and loses nothing.
	MoveCost, SpanCost float64
}

// Result is the devices of all jobs.
type Result struct {
	Allocations []cluster.Allocation // in the order of the counts, those with workers that were placed
	Unplaced    []Unplaced           // in the order of the counts
}

// Unplaced is a job for which too few devices are free.
type Unplaced struct {
	Job    cluster.JobID
	Reason string
}

// Place chooses devices for each count, given what every job holds now. Each
// job is named at most once in current and once in want. Members come in rank
// order: nodes with more devices first, equals in their old order.
//
// If not all fit, those later in want are left out first. Counts that name a model of
// devices come before those that do not, but for those that stay where they are.
func Place(nodes []cluster.Node, current []cluster.Allocation, want []Count) Result {
	q := Question{Nodes: nodes, Current: current, Want: want}
	if parts := q.parts(); parts != nil {
		r, _ := q.inParts(parts, func(part Question) (Result, []Move) { return placeAll(part.Nodes, part.Current, part.Want), nil })
		return r
	}
	return placeAll(nodes, current, want)
}

// placeAll places counts that may have devices of any model.
func placeAll(nodes []cluster.Node, current []cluster.Allocation, want []Count) Result {
	pl := newPlacement(nodes, current, want)
	order := pl.moving
	var left []int
	if !pl.fits(order) {
		order, left = pl.drop(order)
	}
	if !pl.placeCompactly(order) {
		pl.placeByFlow(order)
	}
	var r Result
	for i, c := range want {
		if a := pl.result[i]; a.Placements != nil {
			r.Allocations = append(r.Allocations, a)
		} else if slices.Contains(left, i) {
			r.Unplaced = append(r.Unplaced, Unplaced{Job: c.Job, Reason: pl.reason(c)})
		}
	}
	return r
}

// Fits reports whether Place would find devices for every count.
func Fits(nodes []cluster.Node, current []cluster.Allocation, want []Count) bool {
	pl := newPlacement(nodes, current, want)
	return pl.fits(pl.moving)
}

// placement is the state of one call of Place or Fits.
type placement struct {
	nodes   []*nodeSlots // by ID
	byID    map[cluster.NodeID]*nodeSlots
	current map[cluster.JobID]cluster.Allocation
	want    []Count
	result  []cluster.Allocation // by index of want
	moving  []int                // of want: the jobs that do not stay
}

func newPlacement(nodes []cluster.Node, current []cluster.Allocation, want []Count) *placement {
	pl := &placement{
		byID:    make(map[cluster.NodeID]*nodeSlots, len(nodes)),
		current: make(map[cluster.JobID]cluster.Allocation, len(current)),
		want:    want, result: make([]cluster.Allocation, len(want)),
	}
	for _, n := range nodes {
		s := newNodeSlots(n)
		pl.nodes = append(pl.nodes, s)
		pl.byID[n.ID] = s
	}
	slices.SortFunc(pl.nodes, func(x, y *nodeSlots) int { return strings.Compare(string(x.id), string(y.id)) })
	for _, a := range current {
		pl.current[a.Job] = a
		for _, p := range a.Placements {
			pl.byID[p.Node].hold(p.Devices)
		}
	}
	for i, c := range want {
		switch a := pl.current[c.Job]; {
		case c.Workers <= 0:
		case a.Workers() == c.Workers && pl.stays(c, a):
			for _, p := range a.Placements {
				pl.byID[p.Node].takeIDs(p.Devices)
			}
			pl.result[i] = cluster.Allocation{Job: c.Job, Placements: a.Placements, BatchSize: c.BatchSize}
		default:
			pl.moving = append(pl.moving, i)
		}
	}
	return pl
}

// stays reports whether the job can keep exactly the devices that it has.
func (pl *placement) stays(c Count, a cluster.Allocation) bool {
	for _, p := range a.Placements {
		if !c.Keep && slices.Contains(c.Excluded, p.Node) {
			return false
		}
		if !pl.byID[p.Node].has(p.Devices, c.Keep) {
			return false
		}
	}
	return true
}

// drop leaves out as many moving jobs as it must, later ones first.
func (pl *placement) drop(order []int) (kept, left []int) {
	for _, i := range order {
		if pl.fits(append(kept, i)) {
			kept = append(kept, i)
		} else {
			left = append(left, i)
		}
	}
	return kept, left
}

func (pl *placement) reason(c Count) string {
	open, free := 0, 0
	for _, s := range pl.nodes {
		if !slices.Contains(c.Excluded, s.id) {
			open += s.usable
			free += s.free
		}
	}
	if open < c.Workers {
		return fmt.Sprintf("needs %d devices; the nodes that can run it have %d", c.Workers, open)
	}
	return fmt.Sprintf("needs %d devices; %d of the %d on nodes that can run it are free", c.Workers, free, open)
}

// placeCompactly places the moving jobs so that each has as few nodes as possible:
// shrinking jobs first, inside what they hold, then growing and new ones, large
// before small. It reports false, with nothing changed, when a job finds no
// place that way, which happens only where nodes are excluded.
func (pl *placement) placeCompactly(moving []int) bool {
	if len(moving) == 0 {
		return true
	}
	before := make([]nodeSlots, len(pl.nodes))
	for i, s := range pl.nodes {
		before[i] = s.clone()
	}
	for _, i := range pl.sorted(moving) {
		c := pl.want[i]
		a := pl.current[c.Job]
		var p []piece
		if a.Workers() > c.Workers {
			p = pl.shrink(c, a)
		}
		if p == nil {
			p = pl.grow(c, a)
		}
		if p == nil {
			for k, s := range pl.nodes {
				*s = before[k]
			}
			for _, m := range moving {
				pl.result[m] = cluster.Allocation{}
			}
			return false
		}
		pl.commit(i, p)
	}
	return true
}

// sorted orders moving jobs for placing: shrinking ones, then those with the fewest
// nodes open to them, then growing ones, then large before small.
func (pl *placement) sorted(moving []int) []int {
	type rank struct{ kind, excluded, workers int }
	ranks := make(map[int]rank, len(moving))
	for _, i := range moving {
		c, held := pl.want[i], pl.current[pl.want[i].Job].Workers()
		r := rank{kind: 2, excluded: -len(c.Excluded), workers: -c.Workers}
		if held > c.Workers {
			r.kind = 0
		} else if held > 0 {
			r.kind = 1
		}
		ranks[i] = r
	}
	order := slices.Clone(moving)
	slices.SortStableFunc(order, func(x, y int) int {
		p, q := ranks[x], ranks[y]
		if (p.kind == 0) != (q.kind == 0) {
			return p.kind - q.kind
		}
		return firstOf(p.excluded-q.excluded, p.kind-q.kind, p.workers-q.workers,
			strings.Compare(string(pl.want[x].Job), string(pl.want[y].Job)))
	})
	return order
}

func firstOf(cmp ...int) int {
	for _, c := range cmp {
		if c != 0 {
			return c
		}
	}
	return 0
}

// commit takes the pieces' devices for want[i] and puts its members in rank order.
func (pl *placement) commit(i int, pieces []piece) {
	c := pl.want[i]
	old := pl.current[c.Job].Placements
	place := func(id cluster.NodeID) int {
		if k := slices.IndexFunc(old, func(p cluster.Placement) bool { return p.Node == id }); k >= 0 {
			return k
		}
		return len(old)
	}
	slices.SortFunc(pieces, func(x, y piece) int {
		return firstOf(len(y.slots)-len(x.slots), place(x.on.id)-place(y.on.id), strings.Compare(string(x.on.id), string(y.on.id)))
	})
	a := cluster.Allocation{Job: c.Job, BatchSize: c.BatchSize}
	for _, c := range pieces {
		a.Placements = append(a.Placements, cluster.Placement{Node: c.on.id, Devices: c.on.take(c.slots)})
	}
	pl.result[i] = a
}

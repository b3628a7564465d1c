package place

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// Count is how many workers one job is to have.
type Count struct {
	Job       cluster.JobID
	Workers   int // 0 = no devices
	BatchSize int
	Excluded  []cluster.NodeID // refused the job
	// Keep holds the job to the devices it has as long as they are there, sound
	// or not: it is pinned, or this is no time to move anyone.
	Keep bool
}

// Result is where everybody goes.
type Result struct {
	Allocations []cluster.Allocation // in the order of the counts, those with workers that have a place
	Unplaced    []Unplaced           // in the order of the counts
}

// Unplaced is a job for which no devices are left.
type Unplaced struct {
	Job    cluster.JobID
	Reason string
}

// Place chooses devices for each count, given what every job holds now. Each
// job is named at most once in current and once in want. Members come in rank
// order: nodes with more devices first, equals in their old order.
//
// When not everything fits, those later in want are left out first.
func Place(nodes []cluster.Node, current []cluster.Allocation, want []Count) Result {
	b := newBoard(nodes, current, want)
	order := b.movers
	var left []int
	if !b.fits(order) {
		order, left = b.drop(order)
	}
	if !b.placeNicely(order) {
		b.placeExactly(order)
	}
	var r Result
	for i, c := range want {
		if a := b.result[i]; a.Placements != nil {
			r.Allocations = append(r.Allocations, a)
		} else if slices.Contains(left, i) {
			r.Unplaced = append(r.Unplaced, Unplaced{Job: c.Job, Reason: b.reason(c)})
		}
	}
	return r
}

// Fits reports whether Place would find devices for every count.
func Fits(nodes []cluster.Node, current []cluster.Allocation, want []Count) bool {
	b := newBoard(nodes, current, want)
	return b.fits(b.movers)
}

// board is the state of one placement.
type board struct {
	nodes   []*shelf // by ID
	byID    map[cluster.NodeID]*shelf
	current map[cluster.JobID]cluster.Allocation
	want    []Count
	result  []cluster.Allocation // by index of want
	movers  []int                // of want: those that do not stay
}

func newBoard(nodes []cluster.Node, current []cluster.Allocation, want []Count) *board {
	b := &board{
		byID:    make(map[cluster.NodeID]*shelf, len(nodes)),
		current: make(map[cluster.JobID]cluster.Allocation, len(current)),
		want:    want, result: make([]cluster.Allocation, len(want)),
	}
	for _, n := range nodes {
		s := newShelf(n)
		b.nodes = append(b.nodes, s)
		b.byID[n.ID] = s
	}
	slices.SortFunc(b.nodes, func(x, y *shelf) int { return strings.Compare(string(x.id), string(y.id)) })
	for _, a := range current {
		b.current[a.Job] = a
		for _, p := range a.Placements {
			b.byID[p.Node].hold(p.Devices)
		}
	}
	for i, c := range want {
		switch a := b.current[c.Job]; {
		case c.Workers <= 0:
		case a.Workers() == c.Workers && b.stays(c, a):
			for _, p := range a.Placements {
				b.byID[p.Node].takeIDs(p.Devices)
			}
			b.result[i] = cluster.Allocation{Job: c.Job, Placements: a.Placements, BatchSize: c.BatchSize}
		default:
			b.movers = append(b.movers, i)
		}
	}
	return b
}

// stays reports whether the job can go on with exactly the devices it has.
func (b *board) stays(c Count, a cluster.Allocation) bool {
	for _, p := range a.Placements {
		if !c.Keep && slices.Contains(c.Excluded, p.Node) {
			return false
		}
		if !b.byID[p.Node].has(p.Devices, c.Keep) {
			return false
		}
	}
	return true
}

// drop leaves out as many movers as it must, later ones first.
func (b *board) drop(order []int) (kept, left []int) {
	for _, i := range order {
		if b.fits(append(kept, i)) {
			kept = append(kept, i)
		} else {
			left = append(left, i)
		}
	}
	return kept, left
}

func (b *board) reason(c Count) string {
	open, free := 0, 0
	for _, s := range b.nodes {
		if !slices.Contains(c.Excluded, s.id) {
			open += s.usable
			free += s.free
		}
	}
	if open < c.Workers {
		return fmt.Sprintf("needs %d devices; the nodes that take it have %d", c.Workers, open)
	}
	return fmt.Sprintf("needs %d devices; %d of the %d on nodes that take it are left", c.Workers, free, open)
}

// placeNicely places the movers so that each has as few nodes as possible:
// shrinking jobs first, inside what they hold, then growing and new ones, large
// before small. It reports false, with nothing changed, when someone finds no
// place that way, which happens only where nodes are excluded.
func (b *board) placeNicely(movers []int) bool {
	if len(movers) == 0 {
		return true
	}
	before := make([]shelf, len(b.nodes))
	for i, s := range b.nodes {
		before[i] = s.clone()
	}
	for _, i := range b.sorted(movers) {
		c := b.want[i]
		a := b.current[c.Job]
		var p []cut
		if a.Workers() > c.Workers {
			p = b.shrink(c, a)
		}
		if p == nil {
			p = b.grow(c, a)
		}
		if p == nil {
			for k, s := range b.nodes {
				*s = before[k]
			}
			for _, m := range movers {
				b.result[m] = cluster.Allocation{}
			}
			return false
		}
		b.commit(i, p)
	}
	return true
}

// sorted orders movers for placing: shrinking ones, then those with the fewest
// nodes open to them, then growing ones, then large before small.
func (b *board) sorted(movers []int) []int {
	type rank struct{ kind, excluded, workers int }
	ranks := make(map[int]rank, len(movers))
	for _, i := range movers {
		c, held := b.want[i], b.current[b.want[i].Job].Workers()
		r := rank{kind: 2, excluded: -len(c.Excluded), workers: -c.Workers}
		if held > c.Workers {
			r.kind = 0
		} else if held > 0 {
			r.kind = 1
		}
		ranks[i] = r
	}
	order := slices.Clone(movers)
	slices.SortStableFunc(order, func(x, y int) int {
		p, q := ranks[x], ranks[y]
		if (p.kind == 0) != (q.kind == 0) {
			return p.kind - q.kind
		}
		return firstOf(p.excluded-q.excluded, p.kind-q.kind, p.workers-q.workers,
			strings.Compare(string(b.want[x].Job), string(b.want[y].Job)))
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

// commit takes the cuts' devices for want[i] and puts its members in rank order.
func (b *board) commit(i int, cuts []cut) {
	c := b.want[i]
	old := b.current[c.Job].Placements
	place := func(id cluster.NodeID) int {
		if k := slices.IndexFunc(old, func(p cluster.Placement) bool { return p.Node == id }); k >= 0 {
			return k
		}
		return len(old)
	}
	slices.SortFunc(cuts, func(x, y cut) int {
		return firstOf(len(y.slots)-len(x.slots), place(x.on.id)-place(y.on.id), strings.Compare(string(x.on.id), string(y.on.id)))
	})
	a := cluster.Allocation{Job: c.Job, BatchSize: c.BatchSize}
	for _, cut := range cuts {
		a.Placements = append(a.Placements, cluster.Placement{Node: cut.on.id, Devices: cut.on.take(cut.slots)})
	}
	b.result[i] = a
}

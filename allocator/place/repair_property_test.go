package place_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// scatter has the jobs that are wanted hold devices anywhere, as no placement would have put them.
func (w *world) scatter() {
	var all []cluster.Placement
	for _, n := range w.nodes {
		for _, d := range n.Devices {
			all = append(all, cluster.Placement{Node: n.ID, Devices: []cluster.DeviceID{d.ID}})
		}
	}
	w.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	w.current = nil
	for _, c := range w.want {
		if c.Workers > len(all) {
			return
		}
		a := cluster.Allocation{Job: c.Job}
		for _, p := range all[:c.Workers] {
			if i := slices.IndexFunc(a.Placements, func(o cluster.Placement) bool { return o.Node == p.Node }); i >= 0 {
				a.Placements[i].Devices = append(a.Placements[i].Devices, p.Devices...)
				continue
			}
			a.Placements = append(a.Placements, p)
		}
		for i := range a.Placements {
			slices.Sort(a.Placements[i].Devices)
		}
		slices.SortStableFunc(a.Placements, func(x, y cluster.Placement) int { return len(y.Devices) - len(x.Devices) })
		w.current, all = append(w.current, a), all[c.Workers:]
	}
}

// group divides the devices of each node into groups, and nodes into racks.
func (w *world) group() {
	size := 1 << w.r.IntN(4)
	for i, n := range w.nodes {
		w.nodes[i].Location = fmt.Sprint("rack", i/2)
		for d := range n.Devices {
			if n.Devices[d].Group = ""; size < 8 {
				n.Devices[d].Group = fmt.Sprint("g", d/size)
			}
		}
	}
}

// checkRepair holds what Repair has made of a placement to what it promises.
func (w *world) checkRepair(before, after place.Result, moves []place.Move, most int) error {
	if len(moves) > most {
		return fmt.Errorf("%d moves, at most %d: %v", len(moves), most, moves)
	}
	cost := map[cluster.JobID]float64{} // of the moves for a job
	moved := map[cluster.JobID]bool{}
	for _, m := range moves {
		i := slices.IndexFunc(w.want, func(c place.Count) bool { return c.Job == m.Job })
		if moved[m.Job] || !(w.want[i].MoveCost > 0) {
			return fmt.Errorf("%s moves twice, or without a price: %v", m.Job, moves)
		}
		moved[m.Job] = true
		cost[m.For] += w.want[i].MoveCost
	}
	owner := map[cluster.DeviceID]cluster.JobID{}
	for _, c := range w.want {
		if c.SpanCost <= cost[c.Job] && cost[c.Job] > 0 {
			return fmt.Errorf("moves for %s cost %v and gain %v", c.Job, cost[c.Job], c.SpanCost)
		}
		of := func(all []cluster.Allocation) cluster.Allocation {
			i := slices.IndexFunc(all, func(a cluster.Allocation) bool { return a.Job == c.Job })
			if i < 0 {
				return cluster.Allocation{Job: c.Job}
			}
			return all[i]
		}
		held, old, a := of(w.current), of(before.Allocations), of(after.Allocations)
		ran := held.Placements != nil && slices.EqualFunc(held.Placements, old.Placements, samePlacement)
		same := slices.EqualFunc(old.Placements, a.Placements, samePlacement)
		switch {
		case a.Workers() != c.Workers && a.Workers() != old.Workers():
			return fmt.Errorf("%s has %d workers, wanted %d", c.Job, a.Workers(), c.Workers)
		case ran && same == moved[c.Job]:
			return fmt.Errorf("%s, which ran: moved %t, and is where it was %t", c.Job, moved[c.Job], same)
		case !ran && moved[c.Job]:
			return fmt.Errorf("%s does not run there, and is said to move", c.Job)
		}
		for _, p := range a.Placements {
			n := w.nodes[slices.IndexFunc(w.nodes, func(n cluster.Node) bool { return n.ID == p.Node })]
			for _, d := range p.Devices {
				if by, ok := owner[d]; ok {
					return fmt.Errorf("device %s is given to %s and %s", d, by, c.Job)
				}
				owner[d] = c.Job
				if !same && (slices.Contains(c.Excluded, p.Node) || !slices.Contains(n.Usable(), d)) {
					return fmt.Errorf("%s is put on %s, which it may not have", c.Job, d)
				}
			}
		}
	}
	return nil
}

// TestRepairKeepsItsWord lets Repair loose on clusters in which jobs are anywhere, nodes and devices fail, and any
// price may be asked. Jobs that share several nodes with each other are among them.
func TestRepairKeepsItsWord(t *testing.T) {
	moved, cases := 0, 0
	for seed := range uint64(3000) {
		w := newWorld(seed)
		w.r = rand.New(rand.NewPCG(seed, 11))
		w.group()
		for step := range 4 {
			w.step()
			if step%2 == 0 {
				w.scatter()
			}
			for i := range w.want {
				w.want[i].MoveCost = float64(w.r.IntN(4)) * w.r.Float64()
				w.want[i].SpanCost = float64(w.r.IntN(3)*w.want[i].Workers) * w.r.Float64()
			}
			most := w.r.IntN(5)
			before := place.Place(w.nodes, w.current, w.want)
			after, moves := place.Repair(place.Question{Nodes: w.nodes, Current: w.current, Want: w.want}, before, most)
			if err := w.checkRepair(before, after, moves, most); err != nil {
				t.Fatalf("seed %d: %v\nnodes %+v\ncurrent %+v\nwant %+v\nbefore %+v\nafter %+v", seed, err, w.nodes, w.current, w.want, before, after)
			}
			w.current = after.Allocations
			moved += len(moves)
			cases++
		}
	}
	t.Logf("%d moves in %d cases", moved, cases)
	if moved < cases/10 {
		t.Errorf("only %d moves in %d cases: they test little", moved, cases)
	}
}

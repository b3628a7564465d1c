package place_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// world is a cluster that lives through random demands.
type world struct {
	r       *rand.Rand
	nodes   []cluster.Node
	current []cluster.Allocation
	want    []place.Count
}

func newWorld(seed uint64) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 7))}
	for i := range 1 + w.r.IntN(6) {
		n := cluster.Node{ID: cluster.NodeID('a' + byte(i))}
		for d := range []int{1, 2, 4, 8, 8, 6}[w.r.IntN(6)] {
			n.Devices = append(n.Devices, cluster.Device{ID: device(string(n.ID), d), Health: cluster.Healthy})
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

// step changes the cluster and the demand a little; it need not be feasible.
func (w *world) step() {
	for i := range w.nodes {
		w.nodes[i].Cordoned = w.r.IntN(12) == 0
		for d := range w.nodes[i].Devices {
			w.nodes[i].Devices[d].Health = cluster.Healthy
			if w.r.IntN(20) == 0 {
				w.nodes[i].Devices[d].Health = cluster.Unhealthy
			}
		}
	}
	var next []place.Count
	for i := range 8 {
		c := place.Count{Job: cluster.JobID(fmt.Sprint("j", i)), Workers: 1 << w.r.IntN(4), BatchSize: 64}
		if k := slices.IndexFunc(w.want, func(o place.Count) bool { return o.Job == c.Job }); k >= 0 && w.r.IntN(2) == 0 {
			c.Workers = w.want[k].Workers
			c.Excluded = w.want[k].Excluded
		}
		for _, n := range w.nodes {
			if w.r.IntN(15) == 0 {
				c.Excluded = append(c.Excluded, n.ID)
			}
		}
		c.Keep = w.r.IntN(8) == 0
		if w.r.IntN(3) > 0 {
			next = append(next, c)
		}
	}
	w.want = next
}

// TestProperties drives random worlds and checks what Place promises.
func TestProperties(t *testing.T) {
	exact := 0
	for seed := range uint64(1500) {
		w := newWorld(seed)
		for range 8 {
			w.step()
			r := place.Place(w.nodes, w.current, w.want)
			if err := w.check(r); err != nil {
				t.Fatalf("seed %d: %v\nnodes %+v\ncurrent %+v\nwant %+v\ngot %+v", seed, err, w.nodes, w.current, w.want, r)
			}
			shuffled := slices.Clone(w.nodes)
			w.r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			again := place.Place(shuffled, w.current, w.want)
			if !slices.EqualFunc(r.Allocations, again.Allocations, cluster.Allocation.Equal) {
				t.Fatalf("seed %d: the order of the nodes matters:\n%+v\n%+v", seed, r, again)
			}
			settled := place.Place(w.nodes, r.Allocations, w.want)
			if r.Unplaced == nil && !slices.EqualFunc(r.Allocations, settled.Allocations, cluster.Allocation.Equal) {
				t.Fatalf("seed %d: asked again, it moves jobs:\n%+v\n%+v", seed, r, settled)
			}
			if r.Unplaced == nil {
				exact++
			}
			w.current = r.Allocations
		}
	}
	if exact < 1000 {
		t.Errorf("only %d demands could be met; the worlds are too tight to test much", exact)
	}
}

func (w *world) check(r place.Result) error {
	owner := map[cluster.DeviceID]cluster.JobID{}
	placed := map[cluster.JobID]cluster.Allocation{}
	for _, a := range r.Allocations {
		placed[a.Job] = a
		for i, p := range a.Placements {
			if i > 0 && len(p.Devices) > len(a.Placements[i-1].Devices) {
				return fmt.Errorf("%s: %s comes after a node with fewer devices", a.Job, p.Node)
			}
			for _, d := range p.Devices {
				if by, ok := owner[d]; ok {
					return fmt.Errorf("device %s is given to %s and %s", d, by, a.Job)
				}
				owner[d] = a.Job
			}
		}
	}
	if (r.Unplaced == nil) != place.Fits(w.nodes, w.current, w.want) {
		return fmt.Errorf("Fits disagrees with %d unplaced", len(r.Unplaced))
	}
	for _, c := range w.want {
		a, ok := placed[c.Job]
		out := slices.ContainsFunc(r.Unplaced, func(u place.Unplaced) bool { return u.Job == c.Job })
		if ok == out || ok && a.Workers() != c.Workers {
			return fmt.Errorf("%s: %d workers placed, wanted %d, unplaced %t", c.Job, a.Workers(), c.Workers, out)
		}
		if err := w.checkJob(c, a); err != nil {
			return err
		}
	}
	return nil
}

// checkJob holds one allocation to its job's rules: unchanged and able to stay
// means unmoved, and moved means on usable devices of nodes that can run it.
func (w *world) checkJob(c place.Count, a cluster.Allocation) error {
	k := slices.IndexFunc(w.current, func(o cluster.Allocation) bool { return o.Job == c.Job })
	if k >= 0 && w.current[k].Workers() == c.Workers {
		can := true
		for _, p := range w.current[k].Placements {
			can = can && (c.Keep || !slices.Contains(c.Excluded, p.Node))
			for _, d := range p.Devices {
				can = can && (c.Keep || w.device(p.Node, d).Health == cluster.Healthy)
			}
		}
		if can && !slices.EqualFunc(a.Placements, w.current[k].Placements, samePlacement) {
			return fmt.Errorf("%s was moved from %+v to %+v for nothing", c.Job, w.current[k].Placements, a.Placements)
		}
		if can {
			return nil
		}
	}
	for _, p := range a.Placements {
		if slices.Contains(c.Excluded, p.Node) {
			return fmt.Errorf("%s is on %s, which it excludes", c.Job, p.Node)
		}
		for _, d := range p.Devices {
			n := slices.IndexFunc(w.nodes, func(n cluster.Node) bool { return n.ID == p.Node })
			if !slices.Contains(w.nodes[n].Usable(), d) {
				return fmt.Errorf("%s is on %s, which is not usable", c.Job, d)
			}
		}
	}
	return nil
}

func (w *world) device(node cluster.NodeID, id cluster.DeviceID) cluster.Device {
	for _, n := range w.nodes {
		for _, d := range n.Devices {
			if n.ID == node && d.ID == id {
				return d
			}
		}
	}
	return cluster.Device{}
}

func samePlacement(x, y cluster.Placement) bool {
	return x.Node == y.Node && slices.Equal(x.Devices, y.Devices)
}

// firstFit is the plainest placement there is, to compare with.
func firstFit(nodes []cluster.Node, current []cluster.Allocation, c place.Count) cluster.Allocation {
	taken := map[cluster.DeviceID]bool{}
	for _, a := range current {
		for _, p := range a.Placements {
			for _, d := range p.Devices {
				taken[d] = true
			}
		}
	}
	a := cluster.Allocation{Job: c.Job}
	rest := c.Workers
	for _, n := range nodes {
		p := cluster.Placement{Node: n.ID}
		for _, d := range n.Usable() {
			if rest > 0 && !taken[d] {
				p.Devices = append(p.Devices, d)
				rest--
			}
		}
		if p.Devices != nil {
			a.Placements = append(a.Placements, p)
		}
	}
	return a
}

// TestFragmentation lets jobs of 1 to 8 workers come and go at nine tenths of
// 16 nodes of 8, and counts the jobs that fit on one node but span several.
func TestFragmentation(t *testing.T) {
	spread := func(first bool) (split, placed int) {
		r := rand.New(rand.NewPCG(1, 2))
		ns := nodes("a8 b8 c8 d8 e8 f8 g8 h8 i8 j8 k8 l8 m8 n8 o8 p8")
		var current []cluster.Allocation
		var want []place.Count
		used := 0
		for i := range 4000 {
			c := place.Count{Job: cluster.JobID(fmt.Sprint(i)), Workers: 1 << r.IntN(4)}
			for used+c.Workers > 115 {
				gone := r.IntN(len(want))
				used -= want[gone].Workers
				want = slices.Delete(want, gone, gone+1)
				current = slices.Delete(current, gone, gone+1)
			}
			used += c.Workers
			want = append(want, c)
			if first {
				current = append(current, firstFit(ns, current, c))
			} else {
				current = place.Place(ns, current, want).Allocations
			}
			placed++
			if len(current[len(current)-1].Placements) > 1 {
				split++
			}
		}
		return split, placed
	}
	plain, n := spread(true)
	ours, _ := spread(false)
	t.Logf("of %d jobs that fit on a node, first-fit splits %d (%.1f %%), Place %d (%.1f %%)",
		n, plain, 100*float64(plain)/float64(n), ours, 100*float64(ours)/float64(n))
	if ours*3 > plain {
		t.Errorf("Place splits %d jobs of %d, more than a third of first-fit's %d", ours, n, plain)
	}
}

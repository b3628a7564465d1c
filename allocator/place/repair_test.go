package place_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// tree is a cluster whose levels all have powers of two: nodes of so many NUMA nodes of so many groups of so many devices.
type tree struct{ nodes, numa, groups, devices int }

func (t tree) perNode() int { return t.numa * t.groups * t.devices }

func (t tree) build() []cluster.Node {
	var all []cluster.Node
	for i := range t.nodes {
		n := cluster.Node{ID: cluster.NodeID(fmt.Sprintf("n%02d", i)), Location: fmt.Sprintf("rack%d", i/4)}
		for d := range t.perNode() {
			x := cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("%s-%02d", n.ID, d)), Health: cluster.Healthy}
			if t.groups > 1 {
				x.Group = fmt.Sprint("g", d/t.devices)
			}
			if t.numa > 1 {
				x.NUMA = fmt.Sprint(d / t.devices / t.groups)
			}
			n.Devices = append(n.Devices, x)
		}
		all = append(all, n)
	}
	return all
}

// closest is how many groups, NUMA nodes and nodes k workers take at least.
func (t tree) closest(k int) [3]int {
	up := func(of int) int { return (k + of - 1) / of }
	return [3]int{up(t.devices), up(t.devices * t.groups), up(t.perNode())}
}

// spans is how many an allocation takes; its devices are numbered in the order of the tree.
func (t tree) spans(a cluster.Allocation) [3]int {
	in := [3]map[string]bool{{}, {}, {}}
	for _, p := range a.Placements {
		for _, d := range p.Devices {
			i, _ := strconv.Atoi(string(d[4:]))
			in[0][fmt.Sprint(p.Node, i/t.devices)] = true
			in[1][fmt.Sprint(p.Node, i/t.devices/t.groups)] = true
			in[2][string(p.Node)] = true
		}
	}
	return [3]int{len(in[0]), len(in[1]), len(in[2])}
}

// powers lets jobs of power-of-two sizes come and go at random on a tree. Whatever fits
// by number has to be placed as close as it can be, after fewer moves than it has workers.
type powers struct {
	tree
	r       *rand.Rand
	all     []cluster.Node
	current []cluster.Allocation
	want    []place.Count
	free, n int
	worst   float64 // moves for each worker
	moves   int
}

func newPowers(seed uint64) *powers {
	r := rand.New(rand.NewPCG(seed, 3))
	p := &powers{r: r, tree: []tree{{4, 1, 1, 8}, {3, 1, 2, 4}, {2, 2, 2, 2}, {5, 1, 1, 4}, {2, 2, 1, 2}, {6, 1, 1, 2}}[seed%6]}
	p.all = p.build()
	p.free = p.nodes * p.perNode()
	return p
}

func (p *powers) step() error {
	for len(p.want) > 0 && (p.free == 0 || p.r.IntN(3) == 0) {
		k := p.r.IntN(len(p.want))
		p.free += p.want[k].Workers
		p.want, p.current = slices.Delete(p.want, k, k+1), slices.Delete(p.current, k, k+1)
	}
	k := 1 << p.r.IntN(6)
	for k > p.free {
		k /= 2
	}
	if k == 0 {
		return nil
	}
	p.n++
	p.free -= k
	p.want = append(p.want, place.Count{Job: cluster.JobID(fmt.Sprint("j", p.n)), Workers: k, MoveCost: float64(k), SpanCost: 1e9})
	r := place.Place(p.all, p.current, p.want)
	r, moves := place.Repair(place.Question{Nodes: p.all, Current: p.current, Want: p.want}, r, 1000)
	if len(r.Allocations) != len(p.want) {
		return fmt.Errorf("%d of %d jobs are placed", len(r.Allocations), len(p.want))
	}
	if len(moves) > max(0, k-1) {
		return fmt.Errorf("%d moves for a job of %d: %v", len(moves), k, moves)
	}
	taken := map[cluster.DeviceID]bool{}
	for i, a := range r.Allocations {
		if got, least := p.spans(a), p.closest(p.want[i].Workers); a.Workers() != p.want[i].Workers || !compact(got, least) {
			return fmt.Errorf("job %s of %d takes %v groups, NUMA nodes and nodes, at least %v: %v", a.Job, p.want[i].Workers, got, least, a)
		}
		for _, pl := range a.Placements {
			for _, d := range pl.Devices {
				if taken[d] {
					return fmt.Errorf("device %s has two jobs", d)
				}
				taken[d] = true
			}
		}
	}
	p.current, p.moves = r.Allocations, p.moves+len(moves)
	p.worst = max(p.worst, float64(len(moves))/float64(k))
	return nil
}

// compact reports whether an allocation is within the smallest domain that could hold it.
func compact(got, least [3]int) bool {
	for level := range got {
		if least[level] == 1 {
			return got[level] == 1
		}
	}
	return got[2] == least[2]
}

// TestWhateverFitsIsPlacedClose plays random cases; BELLOWS_PLACE_CASES=1000000 as many as the
// claim in docs/policies.md is about.
func TestWhateverFitsIsPlacedClose(t *testing.T) {
	cases := 20_000
	if text := os.Getenv("BELLOWS_PLACE_CASES"); text != "" {
		cases, _ = strconv.Atoi(text)
	}
	moves, worst := 0, 0.0
	const each = 200
	for seed := range uint64(cases / each) {
		p := newPowers(seed)
		for n := range each {
			if err := p.step(); err != nil {
				t.Fatalf("seed %d, case %d: %v", seed, n, err)
			}
		}
		moves, worst = moves+p.moves, max(worst, p.worst)
	}
	t.Logf("%d cases, %d moves, at most %.2f a worker of the job for which they were", cases, moves, worst)
	if moves < cases/100 {
		t.Errorf("only %d moves in %d cases: they test little", moves, cases)
	}
}

// repaired reads jobs as alloc does, places what is wanted and shows the result and the moves.
func repaired(ns []cluster.Node, current []string, want []place.Count, most int) (string, []place.Move) {
	var held []cluster.Allocation
	for _, a := range current {
		held = append(held, alloc(a))
	}
	q := place.Question{Nodes: ns, Current: held, Want: want}
	r, moves := place.Repair(q, place.Place(ns, held, want), most)
	text := ""
	for i, a := range r.Allocations {
		if i > 0 {
			text += "; "
		}
		text += show(a)
	}
	return text, moves
}

func TestRepair(t *testing.T) {
	costs := func(job string, move, apart float64) place.Count {
		c := count(job)
		c.MoveCost, c.SpanCost = move, apart
		return c
	}
	apart := []string{"x a01", "y b01"}
	for _, c := range []struct {
		name    string
		current []string
		want    []place.Count
		most    int
		get     string
		moves   int
	}{
		{"the cheapest moves", apart, []place.Count{costs("x=2", 9, 0), costs("y=2", 8, 0), costs("z=4", 0, 10)}, 1, "x a01; y a23; z b0123", 1},
		{"where that costs less than it gains", apart, []place.Count{costs("x=2", 10, 0), costs("y=2", 10, 0), costs("z=4", 0, 10)}, 1, "x a01; y b01; z a23 b23", 0},
		{"none that may not move", apart, []place.Count{costs("x=2", 0, 0), costs("y=2!", 0, 0), costs("z=4", 0, 10)}, 1, "x a01; y b01; z a23 b23", 0},
		{"none where none may", apart, []place.Count{costs("x=2", 1, 0), costs("y=2", 1, 0), costs("z=4", 0, 10)}, 0, "x a01; y b01; z a23 b23", 0},
		{"not where it is excluded", apart, []place.Count{costs("x=2", 9, 0), costs("y=2-a", 8, 0), costs("z=4", 0, 10)}, 1, "x b23; y b01; z a0123", 1},
		{"not to where the other is excluded", apart, []place.Count{costs("x=2", 9, 0), costs("y=2", 8, 0), costs("z=4-b", 0, 10)}, 1, "x b23; y b01; z a0123", 1},
		{"a job that runs apart comes together by itself", []string{"x a01 b01", "y a23"}, []place.Count{costs("x=4", 5, 10), costs("y=2", 9, 0)}, 1, "x b0123; y a23", 1},
		{"unless its own move costs as much", []string{"x a01 b01", "y a23"}, []place.Count{costs("x=4", 10, 10), costs("y=2", 9, 0)}, 1, "x a01 b01; y a23", 0},
		{"two moves are more than one", []string{"x a0", "w a3", "y b0", "v b3"}, []place.Count{costs("x=1", 1, 0), costs("w=1", 1, 0), costs("y=1", 1, 0), costs("v=1", 1, 0), costs("z=4", 0, 10)}, 1, "x a0; w a3; y b0; v b3; z a12 b12", 0},
		{"and are made where they may be", []string{"x a0", "w a3", "y b0", "v b3"}, []place.Count{costs("x=1", 1, 0), costs("w=1", 1, 0), costs("y=1", 1, 0), costs("v=1", 1, 0), costs("z=4", 0, 10)}, 2, "x b1; w b2; y b0; v b3; z a0123", 2},
	} {
		ns := nodes("a4 b4")
		if c.current[0] == "x a01 b01" {
			ns = nodes("a4 b4 c4")
		}
		got, moves := repaired(ns, c.current, c.want, c.most)
		if got != c.get || len(moves) != c.moves {
			t.Errorf("%s: got %s by %v, want %s by %d", c.name, got, moves, c.get, c.moves)
		}
	}
}

// A job that Place leaves on an unhealthy device, or on a cordoned node, neither moves nor makes room there.
func TestRepairLeavesWhatIsClosed(t *testing.T) {
	ns := nodes("a4 b4!")
	ns[0].Devices[3].Health = cluster.Unhealthy
	x, z := count("x=1"), count("z=2")
	x.MoveCost, z.SpanCost = 1, 10
	if got, moves := repaired(ns, []string{"x b0"}, []place.Count{x, z}, 4); got != "x b0; z a01" || moves != nil {
		t.Errorf("got %s by %v", got, moves)
	}
}

// The order of the nodes makes no difference to what is moved.
func TestRepairIsDeterministic(t *testing.T) {
	for seed := range uint64(200) {
		p := newPowers(seed)
		for range 20 {
			if err := p.step(); err != nil {
				t.Fatal(err)
			}
		}
		q := place.Question{Nodes: p.all, Current: p.current[:len(p.current)/2], Want: p.want}
		r, moves := place.Repair(q, place.Place(q.Nodes, q.Current, q.Want), 9)
		q.Nodes = slices.Clone(p.all)
		slices.Reverse(q.Nodes)
		again, others := place.Repair(q, place.Place(q.Nodes, q.Current, q.Want), 9)
		if !slices.EqualFunc(r.Allocations, again.Allocations, cluster.Allocation.Equal) || len(moves) != len(others) {
			t.Fatalf("seed %d: %v by %v, %v by %v", seed, r, moves, again, others)
		}
	}
}

// TestPlaceKnowsTheTopology holds Place to the narrowest span and location.
func TestPlaceKnowsTheTopology(t *testing.T) {
	grouped := func(text string, groups ...string) []cluster.Node {
		ns := nodes(text)
		for i := range ns {
			for d := range ns[i].Devices {
				ns[i].Devices[d].Group = string(groups[0][d])
			}
			if len(groups) > 1 {
				ns[i].Location = groups[1+i]
			}
		}
		return ns
	}
	for _, c := range []struct {
		name, want, get string
		nodes           []cluster.Node
		current         []string
	}{
		{name: "groups of three", nodes: grouped("a6", "xxxyyy"), want: "p=2 q=2", get: "p a01; q a34"},
		{name: "devices of a group are numbered apart", nodes: grouped("a4", "xyxy"), want: "p=2", get: "p a02"},
		{name: "a whole pair before two halves on a fuller node", nodes: grouped("a4 b4", "xxyy"), current: []string{"o a0", "r a2"}, want: "o=1 r=1 p=2", get: "o a0; r a2; p b01"},
		{name: "the fuller group", nodes: grouped("a8", "xxxxyyyy"), current: []string{"o a4", "r a5"}, want: "o=1 r=1 p=2", get: "o a4; r a5; p a67"},
		{name: "one rack", nodes: grouped("a4 b4 c4 d4", "xxxx", "r1", "r2", "r1", "r2"), current: []string{"o a0"}, want: "o=1 p=8", get: "o a0; p b0123 d0123"},
		{name: "fewer nodes before one rack", nodes: grouped("a8 b4 c4", "xxxxxxxx", "r1", "r2", "r2"), want: "p=8", get: "p a01234567"},
		{name: "the narrowest location", nodes: grouped("a4 b4 c4 d4", "xxxx", "s1/r1", "s1/r2", "s1/r2", "s2/r3"), want: "p=8", get: "p b0123 c0123"},
		{name: "growing within the rack", nodes: grouped("a4 b4 c4", "xxxx", "r1", "r2", "r1"), current: []string{"p c0123"}, want: "p=8", get: "p c0123 a0123"},
	} {
		var held []cluster.Allocation
		for _, a := range c.current {
			held = append(held, alloc(a))
		}
		var want []place.Count
		for f := range strings.FieldsSeq(c.want) {
			want = append(want, count(f))
		}
		var got []string
		for _, a := range place.Place(c.nodes, held, want).Allocations {
			got = append(got, show(a))
		}
		if g := strings.Join(got, "; "); g != c.get {
			t.Errorf("%s: got %s, want %s", c.name, g, c.get)
		}
	}
}

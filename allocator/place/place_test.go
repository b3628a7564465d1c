package place_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// nodes reads "a4 b8! c2" as node a with 4 devices, a cordoned b with 8, and so on.
func nodes(text string) []cluster.Node {
	var all []cluster.Node
	for f := range strings.FieldsSeq(text) {
		name, cordoned := strings.CutSuffix(f, "!")
		n := cluster.Node{ID: cluster.NodeID(name[:1]), Cordoned: cordoned}
		count, _ := strconv.Atoi(name[1:])
		for i := range count {
			n.Devices = append(n.Devices, cluster.Device{ID: device(name[:1], i), Health: cluster.Healthy})
		}
		all = append(all, n)
	}
	return all
}

func device(node string, i int) cluster.DeviceID {
	return cluster.DeviceID(fmt.Sprintf("%s%d", node, i))
}

// alloc reads "x a01 b2" as job x on devices 0 and 1 of node a and 2 of b.
func alloc(text string) cluster.Allocation {
	f := strings.Fields(text)
	a := cluster.Allocation{Job: cluster.JobID(f[0])}
	for _, part := range f[1:] {
		p := cluster.Placement{Node: cluster.NodeID(part[:1])}
		for _, d := range part[1:] {
			p.Devices = append(p.Devices, device(part[:1], int(d-'0')))
		}
		a.Placements = append(a.Placements, p)
	}
	return a
}

func show(a cluster.Allocation) string {
	s := string(a.Job)
	for _, p := range a.Placements {
		s += " " + string(p.Node)
		for _, d := range p.Devices {
			s += strings.TrimPrefix(string(d), string(p.Node))
		}
	}
	return s
}

// count reads "x=4", "x=4-a-b" (a and b excluded) and "x=4!" (keep).
func count(text string) place.Count {
	name, rest, _ := strings.Cut(text, "=")
	rest, keep := strings.CutSuffix(rest, "!")
	parts := strings.Split(rest, "-")
	k, _ := strconv.Atoi(parts[0])
	c := place.Count{Job: cluster.JobID(name), Workers: k, Keep: keep, BatchSize: 64}
	for _, n := range parts[1:] {
		c.Excluded = append(c.Excluded, cluster.NodeID(n))
	}
	return c
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name, nodes string
		current     []string
		want, get   string // get: "; " between jobs, "?" for an unplaced one
		sick        string
	}{
		{name: "best fit takes the fullest node that fits", nodes: "a4 b2 c1", want: "x=2", get: "x b01"},
		{name: "large before small, and holes stay whole", nodes: "a4 b4", want: "x=1 y=4 z=2 w=1", get: "x b3; y a0123; z b01; w b2"},
		{name: "unchanged stays where it is", nodes: "a4 b4", current: []string{"x b1", "y a03"}, want: "x=1 y=2", get: "x b1; y a03"},
		{name: "a lone worker goes beside another, not into the whole pair", nodes: "a4", current: []string{"x a1"}, want: "x=1 y=1", get: "x a1; y a0"},
		{name: "a pair is aligned", nodes: "a4", current: []string{"x a1"}, want: "x=1 y=2", get: "x a1; y a23"},
		{name: "no aligned pair: the small holes are filled", nodes: "a6", current: []string{"x a1", "z a4"}, want: "x=1 z=1 y=2", get: "x a1; z a4; y a23"},
		{name: "only split pairs are left", nodes: "a4", current: []string{"x a1", "z a2"}, want: "x=1 z=1 y=2", get: "x a1; z a2; y a03"},
		{name: "growing keeps the old device", nodes: "a4 b4", current: []string{"x b2"}, want: "x=2", get: "x b23"},
		{name: "growing keeps the old devices in a larger block", nodes: "a8", current: []string{"x a67"}, want: "x=4", get: "x a4567"},
		{name: "growing moves when that takes fewer nodes", nodes: "a4 b4", current: []string{"x a01", "y a23"}, want: "x=4 y=2", get: "x b0123; y a23"},
		{name: "growing over two nodes keeps the old one first", nodes: "a2 b2", current: []string{"x b01"}, want: "x=4", get: "x b01 a01"},
		{name: "growing prefers free neighbours on its own nodes", nodes: "a4 b4 c4", current: []string{"x b0 c0"}, want: "x=8", get: "x b0123 c0123"},
		{name: "shrinking keeps rank 0's node", nodes: "a4 b4", current: []string{"x b0123 a0123"}, want: "x=4", get: "x b0123"},
		{name: "shrinking frees whole nodes first", nodes: "a4 b2 c2", current: []string{"x a01 b01 c0123"}, want: "x=4", get: "x a01 b01"},
		{name: "shrinking leaves an aligned block", nodes: "a4", current: []string{"x a0123"}, want: "x=2", get: "x a01"},
		{name: "another's devices are taken when it lets go of them", nodes: "a4", current: []string{"x a0123"}, want: "x=2 y=2", get: "x a01; y a23"},
		{name: "free devices come first", nodes: "a2 b2", current: []string{"x a01"}, want: "x=0 y=2", get: "y b01"},
		{name: "equal parts over nodes", nodes: "a3 b3 c3", current: []string{"x c0"}, want: "x=1 y=4", get: "x c0; y a01 c12"},
		{name: "as few nodes as possible when no equal parts do", nodes: "a3 b1 c1", want: "x=4", get: "x a012 b0"},
		{name: "a cordoned node keeps what it has", nodes: "a4! b4", current: []string{"x a01"}, want: "x=2 y=4", get: "x a01; y b0123"},
		{name: "a cordoned node is left on a change", nodes: "a4! b4", current: []string{"x a01"}, want: "x=4", get: "x b0123"},
		{name: "an excluded node is left", nodes: "a4 b4", current: []string{"x a01"}, want: "x=2-a", get: "x b01"},
		{name: "a sick device is left", nodes: "a4 b4", current: []string{"x a01"}, sick: "a1", want: "x=2", get: "x a02"},
		{name: "kept even on a sick device", nodes: "a4 b4", current: []string{"x a01"}, sick: "a1", want: "x=2!", get: "x a01"},
		{name: "a lost node is left even if kept", nodes: "b4", current: []string{"x a01"}, want: "x=2!", get: "x b01"},
		{name: "half a lost node: the rest stays", nodes: "b4", current: []string{"x a01 b01"}, want: "x=4", get: "x b0123"},
		{name: "what excludes most is placed first", nodes: "a2 b2", want: "x=2 y=2-b", get: "x b01; y a01"},
		{name: "a shrinking job moves if another can go nowhere else", nodes: "a2 b2", current: []string{"x a01"}, want: "x=1 y=2-b z=1", get: "x b0; y a01; z b1"},
		{name: "too many: later ones are left out", nodes: "a4", want: "x=4 y=1 z=4", get: "x a0123; y?; z?"},
		{name: "members with more devices come first", nodes: "a2 b4", current: []string{"x a01"}, want: "x=4-b y=4", get: "y b0123; x?"},
		{name: "no nodes", want: "x=1", get: "x?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := nodes(c.nodes)
			for _, n := range ns {
				for i, d := range n.Devices {
					if c.sick != "" && d.ID == cluster.DeviceID(c.sick) {
						n.Devices[i].Health = cluster.Unhealthy
					}
				}
			}
			var current []cluster.Allocation
			for _, a := range c.current {
				current = append(current, alloc(a))
			}
			var want []place.Count
			for f := range strings.FieldsSeq(c.want) {
				want = append(want, count(f))
			}
			r := place.Place(ns, current, want)
			var got []string
			for _, a := range r.Allocations {
				got = append(got, show(a))
				if a.BatchSize != 64 {
					t.Errorf("%s: batch size %d", a.Job, a.BatchSize)
				}
			}
			for _, u := range r.Unplaced {
				got = append(got, string(u.Job)+"?")
			}
			if strings.Join(got, "; ") != c.get {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), c.get)
			}
			if place.Fits(ns, current, want) != (r.Unplaced == nil) {
				t.Error("Fits says otherwise")
			}
		})
	}
}

func TestUnplacedSaysWhatIsMissing(t *testing.T) {
	r := place.Place(nodes("a4 b2"), nil, []place.Count{count("x=4"), count("y=4-a"), count("z=4")})
	want := []place.Unplaced{
		{Job: "y", Reason: "needs 4 devices; the nodes that can run it have 2"},
		{Job: "z", Reason: "needs 4 devices; 2 of the 6 on nodes that can run it are free"},
	}
	if !slices.Equal(r.Unplaced, want) {
		t.Errorf("got %+v", r.Unplaced)
	}
}

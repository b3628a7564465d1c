package place

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// span is a part of a node whose devices are closer to each other than to the rest:
// its slots lo … hi−1.
type span struct{ lo, hi int }

// arrange puts a node's devices in the order of its topology, and tells its spans: groups,
// NUMA nodes, and the node itself, those within others before them.
func arrange(devices []cluster.Device) ([]cluster.Device, []span) {
	whole := span{0, len(devices)}
	if !slices.ContainsFunc(devices, func(d cluster.Device) bool { return d.Group != "" || d.NUMA != "" }) {
		return devices, []span{whole}
	}
	first := map[string]int{} // device of a NUMA node, and of a group of it
	for i, d := range slices.Backward(devices) {
		first[d.NUMA], first[d.NUMA+"/"+d.Group] = i, i
	}
	numa := func(d cluster.Device) int { return first[d.NUMA] }
	group := func(d cluster.Device) int { return first[d.NUMA+"/"+d.Group] }
	devices = slices.Clone(devices)
	slices.SortStableFunc(devices, func(x, y cluster.Device) int { return cmp.Or(numa(x)-numa(y), group(x)-group(y)) })
	var spans []span
	for _, of := range []func(cluster.Device) int{group, numa} {
		for lo := 0; lo < len(devices); {
			hi := lo + 1
			for hi < len(devices) && of(devices[hi]) == of(devices[lo]) {
				hi++
			}
			if sp := (span{lo, hi}); sp != whole && !slices.Contains(spans, sp) {
				spans = append(spans, sp)
			}
			lo = hi
		}
	}
	return devices, append(spans, whole)
}

// narrowest returns the index of the smallest span with k slots of in, and all of must;
// of equals the one with the fewest of in. The whole node is one.
func (s *nodeSlots) narrowest(in []bool, must []int, k int) int {
	best, bestHas := len(s.spans)-1, 0
	for i, sp := range s.spans[:best] {
		has := 0
		for _, yes := range in[sp.lo:sp.hi] {
			if yes {
				has++
			}
		}
		if has < k || !within(must, sp.lo, sp.hi) {
			continue
		}
		if size, least := sp.hi-sp.lo, s.spans[best].hi-s.spans[best].lo; size < least || size == least && has < bestHas {
			best, bestHas = i, has
		}
	}
	return best
}

// fitness is how well k devices fit into a node; less is better.
type fitness struct {
	wide   bool // a narrower span of the node could have held them, if others had not been there
	within int  // devices free in the span that they fit into
	free   int  // and in the node
}

func (f fitness) compare(o fitness) int {
	if f.wide != o.wide {
		if f.wide {
			return 1
		}
		return -1
	}
	return cmp.Or(f.within-o.within, f.free-o.free)
}

// fitness is that of k devices in the node, which has as many free.
func (s *nodeSlots) fitness(k int) fitness {
	f := fitness{within: s.free, free: s.free}
	if len(s.spans) == 1 {
		return f
	}
	size, could := len(s.slots), len(s.slots)
	for _, sp := range s.spans {
		free, usable := 0, 0
		for i := sp.lo; i < sp.hi; i++ {
			if s.slots[i].open {
				usable++
			}
			if s.isFree(i) {
				free++
			}
		}
		if n := sp.hi - sp.lo; free >= k && (n < size || n == size && free < f.within) {
			size, f.within = n, free
		}
		if usable >= k {
			could = min(could, sp.hi-sp.lo)
		}
	}
	f.wide = size > could
	return f
}

// fewest is how many of the nodes, the freest first, have k free devices together; they have.
func fewest(open []*nodeSlots, k int) int {
	n := 0
	for ; k > 0; n++ {
		k -= open[n].free
	}
	return n
}

// nearby keeps, of nodes that are sorted by their free devices, those of one location, where
// that has k on as few nodes as all of them: the narrowest such location, and of equals the one
// with the fewest free devices. With near, only locations that it is in are looked at.
func nearby(open []*nodeSlots, k int, near *nodeSlots) []*nodeSlots {
	least := fewest(open, k)
	type place struct {
		nodes []*nodeSlots
		free  int
	}
	places := map[string]*place{}
	for _, s := range open {
		for _, l := range locations(s.location) {
			if near != nil && l != near.location && !strings.HasPrefix(near.location, l+"/") {
				continue
			}
			p := places[l]
			if p == nil {
				p = &place{}
				places[l] = p
			}
			p.nodes = append(p.nodes, s)
			p.free += s.free
		}
	}
	best, at := (*place)(nil), ""
	for l, p := range places {
		if p.free < k || fewest(p.nodes, k) > least {
			continue
		}
		if best == nil || cmp.Or(strings.Count(at, "/")-strings.Count(l, "/"), p.free-best.free, strings.Compare(l, at)) < 0 {
			best, at = p, l
		}
	}
	if best == nil {
		return open
	}
	return best.nodes
}

// locations are a node's location and all that it lies in: "a/b" and "a" of "a/b".
func locations(path string) []string {
	var all []string
	for path != "" {
		all = append(all, path)
		i := strings.LastIndexByte(path, '/')
		path = path[:max(0, i)]
	}
	return all
}

package place

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// shrink gives up devices inside what the job holds: rank 0's node stays, then
// as few others as will do, so that whole nodes come free. It returns nil when
// too little of what the job holds can still be used.
func (b *board) shrink(c Count, a cluster.Allocation) []cut {
	var own []cut
	have := 0
	for _, p := range a.Placements {
		if slots := b.byID[p.Node].among(p.Devices); len(slots) > 0 && !slices.Contains(c.Excluded, p.Node) {
			own = append(own, cut{b.byID[p.Node], slots})
			have += len(slots)
		}
	}
	if have < c.Workers {
		return nil
	}
	var cuts []cut
	next := 0 // rank 0's node goes first
	for rest := c.Workers; rest > 0; next = bestCut(own, rest) {
		from := own[next]
		own = slices.Delete(own, next, next+1)
		k := min(rest, len(from.slots))
		cuts = append(cuts, cut{from.on, pick(from.on, from.slots, nil, k)})
		rest -= k
	}
	return cuts
}

// bestCut chooses the smallest part that covers the rest, or else the largest.
func bestCut(parts []cut, rest int) int {
	best := 0
	for i, p := range parts {
		n, m := len(p.slots), len(parts[best].slots)
		if n >= rest && (m < rest || n < m) || n < rest && n > m {
			best = i
		}
	}
	return best
}

// grow finds devices for a job that holds fewer than it is to get, or none. It
// keeps the old devices unless starting afresh spans fewer nodes. It returns
// nil when there are too few.
func (b *board) grow(c Count, a cluster.Allocation) []cut {
	kept := b.extend(c, a)
	if len(kept) == 1 {
		return kept
	}
	afresh := b.afresh(c.Workers, func(s *shelf) bool { return slices.Contains(c.Excluded, s.id) })
	if kept == nil || afresh != nil && len(afresh) < len(kept) {
		return afresh
	}
	return kept
}

// extend keeps what the job holds and adds to it, on its own nodes first.
func (b *board) extend(c Count, a cluster.Allocation) []cut {
	var cuts []cut
	used := map[*shelf]bool{}
	rest := c.Workers
	for _, p := range a.Placements {
		s := b.byID[p.Node]
		if slots := s.among(p.Devices); len(slots) > 0 && !slices.Contains(c.Excluded, p.Node) {
			cuts = append(cuts, cut{s, slots})
			used[s] = true
			rest -= len(slots)
		}
	}
	if cuts == nil || rest < 0 {
		return nil
	}
	for i, cut := range cuts {
		more := min(rest, cut.on.free-len(cut.slots))
		if more > 0 {
			cuts[i].slots = pick(cut.on, cut.on.allFree(), cut.slots, len(cut.slots)+more)
			rest -= more
		}
	}
	if rest == 0 {
		return cuts
	}
	others := b.afresh(rest, func(s *shelf) bool { return used[s] || slices.Contains(c.Excluded, s.id) })
	if others == nil {
		return nil
	}
	return append(cuts, others...)
}

// afresh finds k free devices: on one node where one has them, the fullest that
// does; else on as few nodes as possible, in equal parts where that takes no more.
func (b *board) afresh(k int, closed func(*shelf) bool) []cut {
	var open []*shelf
	total := 0
	for _, s := range b.nodes {
		if s.free > 0 && !closed(s) {
			open = append(open, s)
			total += s.free
		}
	}
	if total < k {
		return nil
	}
	if s := fullest(open, k); s != nil {
		return []cut{{s, pick(s, s.allFree(), nil, k)}}
	}
	slices.SortStableFunc(open, func(x, y *shelf) int { return y.free - x.free })
	least, sum := 0, 0
	for ; sum < k; least++ {
		sum += open[least].free
	}
	if part := k / least; part*least == k {
		if cuts := equalParts(open, part, least); cuts != nil {
			return cuts
		}
	}
	var cuts []cut
	for rest := k; rest > 0; {
		s := open[0]
		if last := fullest(open, rest); last != nil {
			s = last
		}
		n := min(rest, s.free)
		cuts = append(cuts, cut{s, pick(s, s.allFree(), nil, n)})
		rest -= n
		open = slices.DeleteFunc(open, func(o *shelf) bool { return o == s })
	}
	return cuts
}

// equalParts takes part devices from each of n nodes, the fullest that have them.
func equalParts(open []*shelf, part, n int) []cut {
	var cuts []cut
	for len(cuts) < n {
		s := fullest(open, part)
		if s == nil {
			return nil
		}
		cuts = append(cuts, cut{s, pick(s, s.allFree(), nil, part)})
		open = slices.DeleteFunc(slices.Clone(open), func(o *shelf) bool { return o == s })
	}
	return cuts
}

// fullest returns the node with the fewest free devices that still has k, or
// nil; among equals the one with the better block of k.
func fullest(open []*shelf, k int) *shelf {
	var best *shelf
	bestCost := 0
	for _, s := range open {
		if s.free < k || best != nil && s.free > best.free {
			continue
		}
		if best != nil && s.free < best.free {
			best, bestCost = nil, 0
		}
		c := cost(s, pick(s, s.allFree(), nil, k))
		if best == nil || c < bestCost {
			best, bestCost = s, c
		}
	}
	return best
}

// cost counts what is bad about a set of slots: not aligned is worse than any
// number of slots that others hold until they have moved.
func cost(s *shelf, slots []int) int {
	bad := 0
	if k := len(slots); k&(k-1) == 0 && (slots[0]%k != 0 || slots[k-1] != slots[0]+k-1) {
		bad += len(s.slots) + 1
	}
	for _, i := range slots {
		if s.slots[i].held {
			bad++
		}
	}
	return bad
}

package place

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// shrink keeps some of the devices that the job holds: those of rank 0's node,
// then of as few other nodes as possible, so that whole nodes become free. It
// returns nil when too few of them can still be used.
func (pl *placement) shrink(c Count, a cluster.Allocation) []piece {
	var own []piece
	have := 0
	for _, p := range a.Placements {
		if slots := pl.byID[p.Node].among(p.Devices); len(slots) > 0 && !slices.Contains(c.Excluded, p.Node) {
			own = append(own, piece{pl.byID[p.Node], slots})
			have += len(slots)
		}
	}
	if have < c.Workers {
		return nil
	}
	var pieces []piece
	next := 0 // rank 0's node goes first
	for rest := c.Workers; rest > 0; next = bestPiece(own, rest) {
		from := own[next]
		own = slices.Delete(own, next, next+1)
		k := min(rest, len(from.slots))
		pieces = append(pieces, piece{from.on, pick(from.on, from.slots, nil, k)})
		rest -= k
	}
	return pieces
}

// bestPiece chooses the smallest part that covers the rest, or else the largest.
func bestPiece(parts []piece, rest int) int {
	best := 0
	for i, p := range parts {
		n, m := len(p.slots), len(parts[best].slots)
		if n >= rest && (m < rest || n < m) || n < rest && n > m {
			best = i
		}
	}
	return best
}

// grow finds devices for a job that gets more than it holds. It keeps the old
// devices unless other ones span fewer nodes. It returns nil when there are too few.
func (pl *placement) grow(c Count, a cluster.Allocation) []piece {
	kept := pl.extend(c, a)
	if len(kept) == 1 {
		return kept
	}
	anew := pl.anew(c.Workers, nil, func(s *nodeSlots) bool { return slices.Contains(c.Excluded, s.id) })
	if kept == nil || anew != nil && len(anew) < len(kept) {
		return anew
	}
	return kept
}

// extend keeps the devices that the job holds and adds others, on its own nodes first.
func (pl *placement) extend(c Count, a cluster.Allocation) []piece {
	var pieces []piece
	used := map[*nodeSlots]bool{}
	rest := c.Workers
	for _, p := range a.Placements {
		s := pl.byID[p.Node]
		if slots := s.among(p.Devices); len(slots) > 0 && !slices.Contains(c.Excluded, p.Node) {
			pieces = append(pieces, piece{s, slots})
			used[s] = true
			rest -= len(slots)
		}
	}
	if pieces == nil || rest < 0 {
		return nil
	}
	for i, c := range pieces {
		more := min(rest, c.on.free-len(c.slots))
		if more > 0 {
			pieces[i].slots = pick(c.on, c.on.allFree(), c.slots, len(c.slots)+more)
			rest -= more
		}
	}
	if rest == 0 {
		return pieces
	}
	others := pl.anew(rest, pieces[0].on, func(s *nodeSlots) bool { return used[s] || slices.Contains(c.Excluded, s.id) })
	if others == nil {
		return nil
	}
	return append(pieces, others...)
}

// anew finds k free devices: on one node where one has them, in the narrowest span there
// is and the fullest that does; else on as few nodes as possible, of those within the
// narrowest location, with near if that is not nil, and in equal parts where that takes no more.
func (pl *placement) anew(k int, near *nodeSlots, closed func(*nodeSlots) bool) []piece {
	var open []*nodeSlots
	total := 0
	for _, s := range pl.nodes {
		if s.free > 0 && !closed(s) {
			open = append(open, s)
			total += s.free
		}
	}
	if total < k {
		return nil
	}
	if s := fullest(open, k); s != nil {
		return []piece{{s, pick(s, s.allFree(), nil, k)}}
	}
	slices.SortStableFunc(open, func(x, y *nodeSlots) int { return y.free - x.free })
	least := fewest(open, k)
	open = nearby(open, k, near)
	if part := k / least; part*least == k {
		if pieces := equalParts(open, part, least); pieces != nil {
			return pieces
		}
	}
	var pieces []piece
	for rest := k; rest > 0; {
		s := open[0]
		if last := fullest(open, rest); last != nil {
			s = last
		}
		n := min(rest, s.free)
		pieces = append(pieces, piece{s, pick(s, s.allFree(), nil, n)})
		rest -= n
		open = slices.DeleteFunc(open, func(o *nodeSlots) bool { return o == s })
	}
	return pieces
}

// equalParts takes part devices from each of n nodes, the fullest that have them.
func equalParts(open []*nodeSlots, part, n int) []piece {
	var pieces []piece
	for len(pieces) < n {
		s := fullest(open, part)
		if s == nil {
			return nil
		}
		pieces = append(pieces, piece{s, pick(s, s.allFree(), nil, part)})
		open = slices.DeleteFunc(slices.Clone(open), func(o *nodeSlots) bool { return o == s })
	}
	return pieces
}

// fullest returns the node with the fewest free devices that still has k, or nil: in
// a span as narrow as the node has for k, the fullest such span, and then the fullest
// node; among equals the one with the better block of k.
func fullest(open []*nodeSlots, k int) *nodeSlots {
	var best *nodeSlots
	var bestFit fitness
	bestCost := 0
	for _, s := range open {
		if s.free < k {
			continue
		}
		f := s.fitness(k)
		c := f.compare(bestFit)
		if best != nil && c > 0 {
			continue
		}
		if best != nil && c < 0 {
			best, bestCost = nil, 0
		}
		bestFit = f
		if c := cost(s, pick(s, s.allFree(), nil, k)); best == nil || c < bestCost {
			best, bestCost = s, c
		}
	}
	return best
}

// cost rates a set of slots, lower is better: not aligned is worse than any number
// of slots that other jobs hold until they have moved.
func cost(s *nodeSlots, slots []int) int {
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

package place

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// nodeSlots are one node's devices. A slot is a device's index in the order of its node's
// topology: those of a group lie side by side, and groups of a NUMA node; where nothing
// is known in the node's own order. Neighbours are closer. A nil nodeSlots is a node that is gone.
type nodeSlots struct {
	id       cluster.NodeID
	location string
	slots    []slot
	spans    []span // the narrowest first; the last is the whole node
	usable   int    // slots open to new work
	free     int    // of them, not taken yet
}

type slot struct {
	device  cluster.DeviceID
	healthy bool
	open    bool // may be given to new work
	held    bool // a job has it now, and may have to release it first
	taken   bool // in this placement
}

// piece is a part of a node: the slots on it that one job gets.
type piece struct {
	on    *nodeSlots
	slots []int // ascending
}

func newNodeSlots(n cluster.Node) *nodeSlots {
	devices, spans := arrange(n.Devices)
	s := &nodeSlots{id: n.ID, location: n.Location, slots: make([]slot, len(devices)), spans: spans}
	for i, d := range devices {
		healthy := d.Health == cluster.Healthy
		s.slots[i] = slot{device: d.ID, healthy: healthy, open: healthy && !n.Cordoned}
		if s.slots[i].open {
			s.usable++
		}
	}
	s.free = s.usable
	return s
}

func (s *nodeSlots) clone() nodeSlots {
	c := *s
	c.slots = slices.Clone(s.slots)
	return c
}

func (s *nodeSlots) find(id cluster.DeviceID) int {
	return slices.IndexFunc(s.slots, func(x slot) bool { return x.device == id })
}

// hold records that a job has these devices now.
func (s *nodeSlots) hold(ids []cluster.DeviceID) {
	if s == nil {
		return
	}
	for _, id := range ids {
		if i := s.find(id); i >= 0 {
			s.slots[i].held = true
		}
	}
}

// has reports whether all the devices are there and not taken and, unless unhealthyToo, healthy.
func (s *nodeSlots) has(ids []cluster.DeviceID, unhealthyToo bool) bool {
	if s == nil {
		return false
	}
	for _, id := range ids {
		i := s.find(id)
		if i < 0 || s.slots[i].taken || !s.slots[i].healthy && !unhealthyToo {
			return false
		}
	}
	return true
}

func (s *nodeSlots) takeIDs(ids []cluster.DeviceID) {
	for _, id := range ids {
		s.takeSlot(s.find(id))
	}
}

func (s *nodeSlots) takeSlot(i int) {
	s.slots[i].taken = true
	if s.slots[i].open {
		s.free--
	}
}

// take takes the slots and returns their devices, in the node's order.
func (s *nodeSlots) take(slots []int) []cluster.DeviceID {
	ids := make([]cluster.DeviceID, 0, len(slots))
	for _, i := range slots {
		s.takeSlot(i)
		ids = append(ids, s.slots[i].device)
	}
	return ids
}

func (s *nodeSlots) isFree(i int) bool { return s.slots[i].open && !s.slots[i].taken }

// among returns those of the devices that are free here, as slots.
func (s *nodeSlots) among(ids []cluster.DeviceID) []int {
	if s == nil {
		return nil
	}
	var own []int
	for _, id := range ids {
		if i := s.find(id); i >= 0 && s.isFree(i) {
			own = append(own, i)
		}
	}
	slices.Sort(own)
	return own
}

// allFree returns the free slots.
func (s *nodeSlots) allFree() []int {
	var all []int
	for i := range s.slots {
		if s.isFree(i) {
			all = append(all, i)
		}
	}
	return all
}

// pick chooses k of the slots from, and must includes all of must (a part of
// from). The narrowest span that has them is best, and the one of those that has the
// fewest. In it an aligned block of k is best; among those the one that breaks up the
// smallest hole, then the one of which other jobs hold the fewest. Without an aligned
// block it fills the smallest holes first.
func pick(s *nodeSlots, from, must []int, k int) []int {
	in := make([]bool, len(s.slots))
	for _, i := range from {
		in[i] = true
	}
	if k == len(from) {
		return slices.Clone(from)
	}
	sp := s.spans[s.narrowest(in, must, k)]
	from = slices.DeleteFunc(slices.Clone(from), func(i int) bool { return i < sp.lo || i >= sp.hi })
	if block := s.alignedBlock(in, must, k, sp); block != nil {
		return block
	}
	holes := make(map[int]int, len(from))
	for _, i := range from {
		holes[i] = hole(in, i, sp)
	}
	for _, i := range must {
		holes[i] = 0
	}
	chosen := slices.Clone(from)
	slices.SortStableFunc(chosen, func(x, y int) int { return firstOf(holes[x]-holes[y], x-y) })
	chosen = chosen[:k]
	slices.Sort(chosen)
	return chosen
}

// alignedBlock finds an aligned block of k in the span.
func (s *nodeSlots) alignedBlock(in []bool, must []int, k int, sp span) []int {
	if k&(k-1) != 0 {
		return nil
	}
	best, bestHole, bestHeld := -1, 0, 0
	for first := sp.lo; first+k <= sp.hi; first += k {
		if slices.Contains(in[first:first+k], false) || !within(must, first, first+k) {
			continue
		}
		size, held := hole(in, first, sp), 0
		for i := first; i < first+k; i++ {
			if s.slots[i].held {
				held++
			}
		}
		if best < 0 || size < bestHole || size == bestHole && held < bestHeld {
			best, bestHole, bestHeld = first, size, held
		}
	}
	if best < 0 {
		return nil
	}
	block := make([]int, k)
	for i := range block {
		block[i] = best + i
	}
	return block
}

func within(slots []int, from, to int) bool {
	return !slices.ContainsFunc(slots, func(i int) bool { return i < from || i >= to })
}

// hole is the size of the largest aligned power-of-two block of the span around slot i that is completely in.
func hole(in []bool, i int, sp span) int {
	size := 0
	for k := 1; k <= sp.hi-sp.lo; k *= 2 {
		first := sp.lo + (i-sp.lo)/k*k
		if first+k > sp.hi || slices.Contains(in[first:first+k], false) {
			break
		}
		size = k
	}
	return size
}

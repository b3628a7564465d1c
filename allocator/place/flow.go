package place

import (
	"slices"
	"strings"
)

// flow shares the free devices of the nodes out among groups of jobs which
// exclude the same nodes. Devices of one node are alike, so a group's jobs fit
// exactly when the group gets as many devices as they want: whether all fit is
// a maximum flow from groups to nodes.
type flow struct {
	groups []group
	spare  []int   // by node: free devices that no group has
	share  [][]int // by group and node
}

type group struct {
	jobs   []int // indices of want
	demand int
	closed []bool // by node
}

// fits reports whether the movers can all be placed, on what is free now.
func (b *board) fits(movers []int) bool {
	need, free, excluding := 0, 0, false
	for _, i := range movers {
		need += b.want[i].Workers
		excluding = excluding || len(b.want[i].Excluded) > 0
	}
	for _, s := range b.nodes {
		free += s.free
	}
	if need > free || !excluding {
		return need <= free
	}
	_, ok := b.solve(movers)
	return ok
}

// solve finds the shares; ok says that every group has what it wants.
func (b *board) solve(movers []int) (f *flow, ok bool) {
	f = &flow{groups: b.groups(movers), spare: make([]int, len(b.nodes))}
	for n, s := range b.nodes {
		f.spare[n] = s.free
	}
	for range f.groups {
		f.share = append(f.share, make([]int, len(b.nodes)))
	}
	for g := range f.groups {
		rest := f.groups[g].demand
		for rest > 0 {
			got := f.augment(g, rest)
			if got == 0 {
				return f, false
			}
			rest -= got
		}
	}
	return f, true
}

func (b *board) groups(movers []int) []group {
	var groups []group
	index := map[string]int{}
	for _, i := range movers {
		ex := slices.Clone(b.want[i].Excluded)
		slices.Sort(ex)
		ex = slices.Compact(ex)
		var key strings.Builder
		for _, id := range ex {
			key.WriteString(string(id))
			key.WriteByte(0)
		}
		g, ok := index[key.String()]
		if !ok {
			g = len(groups)
			index[key.String()] = g
			closed := make([]bool, len(b.nodes))
			for n, s := range b.nodes {
				_, closed[n] = slices.BinarySearch(ex, s.id)
			}
			groups = append(groups, group{closed: closed})
		}
		groups[g].jobs = append(groups[g].jobs, i)
		groups[g].demand += b.want[i].Workers
	}
	return groups
}

// augment brings group g up to most more devices, along one shortest path on
// which other groups move to nodes that g cannot use. It returns how many.
func (f *flow) augment(g, most int) int {
	const unseen = -1
	viaNode := make([]int, len(f.groups)) // the node by which a group was reached
	fromGroup := make([]int, len(f.spare))
	for i := range fromGroup {
		fromGroup[i] = unseen
	}
	for i := range viaNode {
		viaNode[i] = unseen
	}
	queue := []int{g}
	end := unseen
search:
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for n := range f.spare {
			if f.groups[at].closed[n] || fromGroup[n] != unseen {
				continue
			}
			fromGroup[n] = at
			if f.spare[n] > 0 {
				end = n
				break search
			}
			for h := range f.groups {
				if h != g && viaNode[h] == unseen && f.share[h][n] > 0 {
					viaNode[h] = n
					queue = append(queue, h)
				}
			}
		}
	}
	if end == unseen {
		return 0
	}
	amount := min(most, f.spare[end])
	for n := end; fromGroup[n] != g; n = viaNode[fromGroup[n]] {
		h := fromGroup[n]
		amount = min(amount, f.share[h][viaNode[h]])
	}
	f.spare[end] -= amount
	for n := end; ; n = viaNode[fromGroup[n]] {
		h := fromGroup[n]
		f.share[h][n] += amount
		if h == g {
			return amount
		}
		f.share[h][viaNode[h]] -= amount
	}
}

// placeExactly places movers of which fits has said that they can all be
// placed, by giving each group its share of the nodes. Old devices do not
// matter here: this is for the rare case in which being nice leaves someone out.
func (b *board) placeExactly(movers []int) {
	f, _ := b.solve(movers)
	for g, group := range f.groups {
		left := slices.Clone(f.share[g])
		slices.SortStableFunc(group.jobs, func(x, y int) int { return b.want[y].Workers - b.want[x].Workers })
		for _, i := range group.jobs {
			b.commit(i, b.fromShare(left, b.want[i].Workers))
		}
	}
}

// fromShare cuts k devices out of what is left of a group's share, which has them.
func (b *board) fromShare(left []int, k int) []cut {
	var cuts []cut
	for k > 0 {
		best := -1
		for n, have := range left {
			if have == 0 {
				continue
			}
			if best < 0 || have >= k && (left[best] < k || have < left[best]) || have < k && have > left[best] {
				best = n
			}
		}
		s := b.nodes[best]
		n := min(k, left[best])
		cuts = append(cuts, cut{s, pick(s, s.allFree(), nil, n)})
		left[best] -= n
		k -= n
	}
	return cuts
}

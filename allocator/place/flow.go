package place

import (
	"slices"
	"strings"
)

// flow divides the free devices of the nodes among groups of jobs that exclude the
// same nodes. Devices of one node are alike, so a group's jobs fit
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

// fits reports whether all moving jobs can be placed on the free devices.
func (pl *placement) fits(moving []int) bool {
	need, free, excluding := 0, 0, false
	for _, i := range moving {
		need += pl.want[i].Workers
		excluding = excluding || len(pl.want[i].Excluded) > 0
	}
	for _, s := range pl.nodes {
		free += s.free
	}
	if need > free || !excluding {
		return need <= free
	}
	_, ok := pl.solve(moving)
	return ok
}

// solve finds the shares of the groups; ok reports that each group has its demand.
func (pl *placement) solve(moving []int) (f *flow, ok bool) {
	f = &flow{groups: pl.groups(moving), spare: make([]int, len(pl.nodes))}
	for n, s := range pl.nodes {
		f.spare[n] = s.free
	}
	for range f.groups {
		f.share = append(f.share, make([]int, len(pl.nodes)))
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

func (pl *placement) groups(moving []int) []group {
	var groups []group
	index := map[string]int{}
	for _, i := range moving {
		ex := slices.Clone(pl.want[i].Excluded)
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
			closed := make([]bool, len(pl.nodes))
			for n, s := range pl.nodes {
				_, closed[n] = slices.BinarySearch(ex, s.id)
			}
			groups = append(groups, group{closed: closed})
		}
		groups[g].jobs = append(groups[g].jobs, i)
		groups[g].demand += pl.want[i].Workers
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

// placeByFlow places moving jobs that fit, by giving each group its share of the
// nodes. The devices that jobs hold now do not matter here: this is for the rare
// case in which placeCompactly leaves a job out.
func (pl *placement) placeByFlow(moving []int) {
	f, _ := pl.solve(moving)
	for g, group := range f.groups {
		left := slices.Clone(f.share[g])
		slices.SortStableFunc(group.jobs, func(x, y int) int { return pl.want[y].Workers - pl.want[x].Workers })
		for _, i := range group.jobs {
			pl.commit(i, pl.fromShare(left, pl.want[i].Workers))
		}
	}
}

// fromShare takes k devices from the rest of a group's share, which has them.
func (pl *placement) fromShare(left []int, k int) []piece {
	var pieces []piece
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
		s := pl.nodes[best]
		n := min(k, left[best])
		pieces = append(pieces, piece{s, pick(s, s.allFree(), nil, n)})
		left[best] -= n
		k -= n
	}
	return pieces
}

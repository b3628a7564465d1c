package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// fleetType is nodes that a plan takes for equal.
type fleetType struct {
	devices int     // that each has at least
	price   float64 // an hour, their mean
	model   string
	nodes   []cluster.NodeID
}

// typesOf makes types of nodes, given as one type each: those with the same devices,
// price and model are one. Where that leaves more than most, neighbours in the order of
// model, devices and price become one, those that are most alike first: with the devices of
// the smaller, so that a plan fits on any of its nodes, and their mean price. None is left out.
func typesOf(nodes []fleetType, most int) (types []fleetType) {
	type kind struct {
		devices int
		price   float64
		model   string
	}
	at := map[kind]int{}
	for _, n := range nodes {
		k := kind{n.devices, n.price, n.model}
		v, known := at[k]
		if !known {
			at[k] = len(types)
			types = append(types, n)
			continue
		}
		types[v].nodes = append(types[v].nodes, n.nodes...)
	}
	if len(types) <= most {
		return types
	}
	slices.SortStableFunc(types, func(a, b fleetType) int {
		return cmp.Or(cmp.Compare(a.model, b.model), a.devices-b.devices, cmp.Compare(a.price, b.price))
	})
	for len(types) > most {
		types = mergeAlike(types, min(len(types)-most, max(1, len(types)/8)))
	}
	return types
}

// mergeAlike makes one of each of so many pairs of neighbours, at most, those that are most alike.
func mergeAlike(types []fleetType, pairs int) (out []fleetType) {
	type pair struct {
		first  int
		unlike float64
	}
	var all []pair
	for i := range len(types) - 1 {
		all = append(all, pair{i, types[i].unlike(types[i+1])})
	}
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(a.unlike, b.unlike) })
	into, merged := map[int]bool{}, map[int]bool{}
	for _, p := range all {
		if len(into) == pairs {
			break
		}
		if i := p.first; !into[i] && !merged[i] && !into[i+1] {
			into[i], merged[i+1] = true, true
		}
	}
	for i, t := range types {
		switch {
		case into[i]:
			out = append(out, t.with(types[i+1]))
		case !merged[i]:
			out = append(out, t)
		}
	}
	return out
}

// with is both as one type. Of their nodes the cheaper come first.
func (t fleetType) with(o fleetType) fleetType {
	if o.price < t.price {
		t, o = o, t
	}
	n, more := float64(len(t.nodes)), float64(len(o.nodes))
	t.price = (t.price*n + o.price*more) / (n + more)
	t.devices = min(t.devices, o.devices)
	t.nodes = slices.Concat(t.nodes, o.nodes)
	return t
}

// unlike is what making one of both would blur, in nodes: the part of their devices that would be left
// out, the part of the price by which they differ, and all of the fewer where the models differ.
func (t fleetType) unlike(o fleetType) float64 {
	few := float64(min(len(t.nodes), len(o.nodes)))
	small, large := t, o
	if small.devices > large.devices {
		small, large = o, t
	}
	d := float64(len(large.nodes)) * float64(large.devices-small.devices) / float64(large.devices)
	if high := max(t.price, o.price); high > 0 {
		d += few * math.Abs(t.price-o.price) / high
	}
	if t.model != o.model {
		d += float64(len(t.nodes) + len(o.nodes))
	}
	return d
}

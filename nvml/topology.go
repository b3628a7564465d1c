package nvml

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/bellows-ml/bellows/cluster"
)

// locate tells each device its group and its NUMA node, by the links among those that
// answer; one that does not keeps what was known of it.
//
//   - Where all reach each other over NVLink, through switches, they are alike: no
//     NUMA node or PCIe switch between them matters.
//   - Else a group is what NVLink joins, bridged pairs for example. Where NVLink joins nothing,
//     or what it joins lies in several NUMA nodes, it is what PCIe switches join.
//   - Where that leaves one group, or every device alone, groups tell nothing, and NUMA
//     nodes alone are told.
func locate(devices []Reading, links []Link) {
	answering := map[cluster.DeviceID]int{}
	for _, l := range links {
		answering[l.A], answering[l.B] = 0, 0
	}
	var known []int // indices of devices
	for i, r := range devices {
		if _, ok := answering[r.ID]; ok {
			answering[r.ID] = len(known)
			known = append(known, i)
		}
	}
	for _, i := range known {
		devices[i].Group, devices[i].Device.NUMA = "", ""
	}
	if len(known) < 2 || !slices.ContainsFunc(links, func(l Link) bool { return l.NVLinks == 0 }) {
		return
	}
	numa := func(k int) int { return devices[known[k]].NUMA }
	if !slices.ContainsFunc(known, func(i int) bool { return devices[i].NUMA < 0 }) {
		for _, i := range known {
			devices[i].Device.NUMA = strconv.Itoa(devices[i].NUMA)
		}
	}
	for _, by := range []struct {
		name  string
		joins func(Link) bool
	}{
		{"nvlink", func(l Link) bool { return l.NVLinks > 0 }},
		{"pcie", func(l Link) bool { return l.Path == "PIX" || l.Path == "PXB" }},
	} {
		of, n := components(len(known), links, answering, by.joins)
		if n == 1 || n == len(known) || !nested(of, n, numa) {
			continue
		}
		for k, i := range known {
			// Named by its first device, so that another group keeps its name where one is lost.
			devices[i].Group = fmt.Sprintf("%s-%d", by.name, devices[known[slices.Index(of, of[k])]].Index)
		}
		return
	}
}

// components numbers the sets of n devices that links of a kind join, in the order of their first devices.
func components(n int, links []Link, index map[cluster.DeviceID]int, joins func(Link) bool) (of []int, count int) {
	root := make([]int, n)
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			i = root[i]
		}
		return i
	}
	for _, l := range links {
		if joins(l) {
			a, b := find(index[l.A]), find(index[l.B])
			root[max(a, b)] = min(a, b)
		}
	}
	of = make([]int, n)
	for i := range of {
		if r := find(i); r == i {
			of[i] = count
			count++
		} else {
			of[i] = of[r]
		}
	}
	return of, count
}

// nested reports whether each component lies in one NUMA node.
func nested(of []int, count int, numa func(int) int) bool {
	at := make([]int, count)
	for i := range at {
		at[i] = -2
	}
	for k, c := range of {
		if at[c] != -2 && at[c] != numa(k) {
			return false
		}
		at[c] = numa(k)
	}
	return true
}

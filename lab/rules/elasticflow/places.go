package elasticflow

import (
	"cmp"
	"slices"

	"github.com/bellows-ml/bellows/lab/sim"
)

// places is which devices its simulator gives to each job. It places all jobs
// again in each round, and the cost of a start depends on whether exactly these
// devices have served one job together before.
type places struct {
	on     sim.Machines
	free   []int           // unused nodes, ascending
	groups map[int][]*set  // by the size of job that still fits
	cache  map[[2]int]bool // first device and how many
}

// set is some nodes with the jobs on them.
type set struct {
	nodes []int
	jobs  []*job
	used  int
}

// groupSizes are the sizes by which it sorts nodes, ascending.
var groupSizes = [...]int{1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 88, 128, 256}

func newPlaces(on sim.Machines) places {
	return places{on: on, cache: map[[2]int]bool{}}
}

// reset removes all jobs.
func (p *places) reset() {
	p.groups = map[int][]*set{}
	p.free = p.free[:0]
	for n := range p.on.Nodes {
		p.free = append(p.free, n)
	}
}

// place finds devices: beside other jobs in the first set for jobs of its size or,
// if that has too few, for larger ones, or else on unused nodes.
func (p *places) place(j *job) bool {
	if p.beside(j, j.devices) {
		return true
	}
	for i := len(groupSizes) - 1; groupSizes[i] > j.devices; i-- {
		if p.beside(j, groupSizes[i]) {
			return true
		}
	}
	nodes := ceilDiv(j.devices, p.on.DevicesPerNode)
	if nodes > len(p.free) {
		return false
	}
	s := &set{nodes: slices.Clone(p.free[:nodes])}
	p.free = p.free[nodes:]
	p.add(s, j)
	return true
}

// beside tries the first set of a group; a set with too few devices moves to the group's end.
func (p *places) beside(j *job, group int) bool {
	sets := p.groups[group]
	if len(sets) == 0 {
		return false
	}
	first := sets[0]
	p.groups[group] = append(sets[1:len(sets):len(sets)], first)
	if first.used+j.devices > len(first.nodes)*p.on.DevicesPerNode {
		return false
	}
	p.groups[group] = sets[1:]
	p.add(first, j)
	return true
}

// add puts a job into a set, and the set into the group of what is left of it.
func (p *places) add(s *set, j *job) {
	s.jobs = append(s.jobs, j)
	s.used += j.devices
	group := j.devices
	if left := len(s.nodes)*p.on.DevicesPerNode - s.used; left > 0 {
		for _, size := range groupSizes {
			if size <= left && left%size == 0 {
				group = size
			}
		}
	}
	p.groups[group] = append(p.groups[group], s)
	p.sort(group)
	p.sort(j.devices)
}

func (p *places) sort(group int) {
	slices.SortStableFunc(p.groups[group], func(a, b *set) int { return cmp.Compare(a.used, b.used) })
}

// remember marks the jobs whose devices have served one job together before, and records all for the next round.
func (p *places) remember() {
	of := make([]*set, p.on.Nodes)
	for _, sets := range p.groups {
		for _, s := range sets {
			for _, n := range s.nodes {
				of[n] = s
			}
		}
	}
	for n, s := range of {
		if s == nil || s.nodes[0] != n {
			continue
		}
		device := n * p.on.DevicesPerNode
		for _, j := range s.jobs {
			key := [2]int{device, j.devices}
			j.cached = p.cache[key]
			p.cache[key] = true
			device += j.devices
		}
	}
}

package sim

import (
	"cmp"
	"slices"
)

// elasticFlowPlaces says which devices its simulator gives to whom. It places
// everybody anew in each round, and what a start costs depends on whether
// these very devices have served one job together before.
type elasticFlowPlaces struct {
	machines Machines
	free     []int                     // nodes on which nobody is, ascending
	groups   map[int][]*elasticFlowSet // by the size of job that still fits
	cache    map[[2]int]bool           // first device and how many
}

// elasticFlowSet is some nodes with the jobs on them.
type elasticFlowSet struct {
	nodes []int
	jobs  []*elasticFlowJob
	used  int
}

// elasticFlowGroups are the sizes by which it sorts nodes, ascending.
var elasticFlowGroups = [...]int{1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 88, 128, 256}

func newElasticFlowPlaces(on Machines) elasticFlowPlaces {
	return elasticFlowPlaces{machines: on, cache: map[[2]int]bool{}}
}

// reset takes everybody off.
func (p *elasticFlowPlaces) reset() {
	p.groups = map[int][]*elasticFlowSet{}
	p.free = p.free[:0]
	for n := range p.machines.Nodes {
		p.free = append(p.free, n)
	}
}

// place finds room: beside others where the first set that has room for its size
// has it, or one for larger jobs, or else on nodes that nobody uses.
func (p *elasticFlowPlaces) place(j *elasticFlowJob) bool {
	if p.beside(j, j.devices) {
		return true
	}
	for i := len(elasticFlowGroups) - 1; elasticFlowGroups[i] > j.devices; i-- {
		if p.beside(j, elasticFlowGroups[i]) {
			return true
		}
	}
	nodes := ceilDiv(j.devices, p.machines.DevicesPerNode)
	if nodes > len(p.free) {
		return false
	}
	s := &elasticFlowSet{nodes: slices.Clone(p.free[:nodes])}
	p.free = p.free[nodes:]
	p.add(s, j)
	return true
}

// beside tries the first set of a group; one without room goes to the group's end.
func (p *elasticFlowPlaces) beside(j *elasticFlowJob, group int) bool {
	sets := p.groups[group]
	if len(sets) == 0 {
		return false
	}
	first := sets[0]
	p.groups[group] = append(sets[1:len(sets):len(sets)], first)
	if first.used+j.devices > len(first.nodes)*p.machines.DevicesPerNode {
		return false
	}
	p.groups[group] = sets[1:]
	p.add(first, j)
	return true
}

// add puts a job into a set, and the set into the group of what is left of it.
func (p *elasticFlowPlaces) add(s *elasticFlowSet, j *elasticFlowJob) {
	s.jobs = append(s.jobs, j)
	s.used += j.devices
	group := j.devices
	if left := len(s.nodes)*p.machines.DevicesPerNode - s.used; left > 0 {
		for _, size := range elasticFlowGroups {
			if size <= left && left%size == 0 {
				group = size
			}
		}
	}
	p.groups[group] = append(p.groups[group], s)
	p.sort(group)
	p.sort(j.devices)
}

func (p *elasticFlowPlaces) sort(group int) {
	slices.SortStableFunc(p.groups[group], func(a, b *elasticFlowSet) int { return cmp.Compare(a.used, b.used) })
}

// remember marks the jobs whose devices have served one job together before, and notes all for the next time.
func (p *elasticFlowPlaces) remember() {
	of := make([]*elasticFlowSet, p.machines.Nodes)
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
		device := n * p.machines.DevicesPerNode
		for _, j := range s.jobs {
			key := [2]int{device, j.devices}
			j.cached = p.cache[key]
			p.cache[key] = true
			device += j.devices
		}
	}
}

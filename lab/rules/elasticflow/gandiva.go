package elasticflow

import (
	"cmp"
	"math"
	"slices"
)

// gandiva is its simulator's Gandiva: nodes are divided among the sizes of jobs,
// and on the nodes of one size jobs share the time.
//
//	each round: count the time ─► remove ended jobs ─► place arrivals ─► divide the nodes again
//
// Its simulator divides the nodes at the beginning of a round, and counts the
// time before for the jobs that come first then. Nothing happens in between, so
// here it is done at the end of the round before, when the running jobs are known.
type gandiva struct {
	*terms
	arrivals events
	free     int                   // nodes of no size
	sets     map[int][]*gandivaSet // by size
	waiting  []*job                // those for which there was no node at all
	late     map[*job]bool         // those that have waited so: their start costs nothing from the next round on
	last     int                   // when the previous round was
}

// gandivaSet is some nodes whose jobs share the time: the first ones run, as many as there are devices for.
type gandivaSet struct {
	nodes int
	room  int // jobs at a time
	used  int // jobs that were put here, ended ones included
	jobs  []*job
}

// running are those of a set's jobs that have devices.
func (s *gandivaSet) running() []*job { return s.jobs[:min(len(s.jobs), s.room)] }

// gandivaSwitch is the multiple of seconds at which running jobs make room for waiting ones.
const gandivaSwitch = 60

func newGandiva(t *terms, jobs []*job, first int) *gandiva {
	x := &gandiva{terms: t, free: t.on.Nodes, sets: map[int][]*gandivaSet{}, late: map[*job]bool{}, last: first}
	for _, j := range jobs {
		x.arrivals.at(j.submit).arrive(j)
	}
	return x
}

// decide implements decider.
func (x *gandiva) decide(now int) (int, bool, error) {
	released := x.execute(now)
	for j := range x.late {
		j.overhead = 0
	}
	if ev := x.arrivals.find(now); ev != nil {
		for _, j := range ev.arrived {
			if !x.place(j) {
				x.waiting = append(x.waiting, j)
				x.late[j] = true
			}
		}
		x.arrivals = slices.DeleteFunc(x.arrivals, func(o *event) bool { return o == ev })
	}
	if released {
		// Its simulator removes jobs from the list that it iterates over, and so skips every next one.
		for i := 0; i < len(x.waiting); i++ {
			if x.place(x.waiting[i]) {
				x.waiting = slices.Delete(x.waiting, i, i+1)
			}
		}
	}
	next, more := x.following(now)
	x.divide()
	x.last = now
	x.run(now, next)
	return next, more, nil
}

// execute counts the time since the last round and removes ended jobs; true if that frees nodes.
func (x *gandiva) execute(now int) (released bool) {
	for _, size := range groupSizes {
		x.sets[size] = slices.DeleteFunc(x.sets[size], func(s *gandivaSet) bool {
			running := slices.Clone(s.running())
			var ended []*job
			for _, j := range running {
				j.executed += max(0, now-x.last-j.overhead)
				j.overhead = 0
				if j.executed >= j.took {
					ended = append(ended, j)
				}
			}
			if now%gandivaSwitch == 0 && len(s.jobs) > len(running) {
				s.jobs = slices.Concat(s.jobs[len(running):], running)
			}
			s.jobs = slices.DeleteFunc(s.jobs, func(j *job) bool { return slices.Contains(ended, j) })
			for _, j := range ended {
				j.devices, j.leaves = 0, false
				delete(x.late, j)
			}
			if len(s.jobs) > 0 {
				return false
			}
			x.free += s.nodes
			released = true
			return true
		})
	}
	return released
}

// place puts a job where its size has devices, or on unused nodes, or where it will share the time.
func (x *gandiva) place(j *job) bool {
	sets := x.sets[j.asked]
	if len(sets) > 0 {
		first := sets[0]
		if first.used+1 < first.room {
			x.put(first, j)
			return true
		}
		x.sets[j.asked] = append(sets[1:len(sets):len(sets)], first)
	}
	if s := x.open(j.asked); s != nil {
		x.put(s, j)
		return true
	}
	if len(sets) == 0 {
		return false
	}
	x.put(x.sets[j.asked][0], j)
	return true
}

// put adds a job to a set of its size, and moves the set behind those with as many jobs.
func (x *gandiva) put(s *gandivaSet, j *job) {
	sets := slices.DeleteFunc(x.sets[j.asked], func(o *gandivaSet) bool { return o == s })
	x.sets[j.asked] = append(sets, s)
	x.add(s, j)
}

// add does so too, but leaves the set before those with as many jobs.
func (x *gandiva) add(s *gandivaSet, j *job) {
	s.used++
	s.jobs = append(s.jobs, j)
	slices.SortStableFunc(x.sets[j.asked], func(a, b *gandivaSet) int { return cmp.Compare(a.used, b.used) })
}

// open takes nodes for one more set of a size, if enough are free.
func (x *gandiva) open(size int) *gandivaSet {
	nodes := ceilDiv(size, x.on.DevicesPerNode)
	if nodes > x.free {
		return nil
	}
	x.free -= nodes
	s := &gandivaSet{nodes: nodes, room: nodes * x.on.DevicesPerNode / size}
	x.sets[size] = append(x.sets[size], s)
	return s
}

// following is when the next round is due: at events, and after the last arrival in each slot.
func (x *gandiva) following(now int) (int, bool) {
	if len(x.arrivals) > 0 {
		restart := x.restarts()
		for _, sets := range x.sets {
			for _, s := range sets {
				for _, j := range s.jobs {
					j.overhead = x.startCost(j.asked, restart, false)
				}
			}
		}
		return x.arrivals.gather(now, x.slot)
	}
	left := len(x.waiting)
	for _, sets := range x.sets {
		for _, s := range sets {
			left += len(s.jobs)
		}
	}
	return now + x.slot, left > 0
}

// divide gives each size nodes in proportion to the devices that its jobs ask for.
func (x *gandiva) divide() {
	total, wanted, has := 0, map[int]int{}, map[int]int{}
	for size, sets := range x.sets {
		for _, s := range sets {
			wanted[size] += len(s.jobs) * size
			has[size] += s.nodes * x.on.DevicesPerNode
		}
		total += wanted[size]
	}
	for _, size := range groupSizes {
		if wanted[size] == 0 {
			continue
		}
		share := int(math.Floor(float64(wanted[size]) / float64(total) * float64(x.on.Devices())))
		switch more := min(share, wanted[size]) - has[size]; {
		case more > 0:
			x.grow(size, ceilDiv(more, size))
		case more < 0:
			x.shrink(size, ceilDiv(-more, size))
		}
	}
}

// grow opens sets while there are nodes. Its simulator spreads the jobs over all
// of them only if each has several nodes, or if the nodes did not suffice.
func (x *gandiva) grow(size, sets int) {
	spread := false
	for range sets {
		s := x.open(size)
		spread = s == nil || s.nodes > 1
	}
	if !spread {
		return
	}
	var jobs []*job
	for _, s := range x.sets[size] {
		jobs = append(jobs, s.jobs...)
		s.jobs, s.used = nil, 0
	}
	for _, j := range jobs {
		x.add(x.sets[size][0], j)
	}
}

// shrink removes sets, but not the last one; their jobs share the time of the others.
func (x *gandiva) shrink(size, sets int) {
	all := x.sets[size]
	sets = min(sets, len(all)-1)
	x.sets[size] = all[sets:]
	for _, s := range all[:sets] {
		x.free += s.nodes
		for _, j := range s.jobs {
			x.add(x.sets[size][0], j)
		}
	}
}

// run sets which jobs have devices until the next round, and which end before it.
func (x *gandiva) run(now, next int) {
	for _, sets := range x.sets {
		for _, s := range sets {
			for i, j := range s.jobs {
				j.devices, j.leaves = 0, false
				if i >= s.room {
					continue
				}
				j.devices = j.asked
				if done := j.executed + max(0, next-now-j.overhead); done >= j.took {
					j.end, j.leaves = next-(done-j.took), true
				}
			}
		}
	}
}

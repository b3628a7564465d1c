package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// desk is what a policy works at: the jobs in queue order, the number that each
// is to get, and a set that refuses whatever would not fit. It begins with what
// is in force, which after a loss of devices may be more than there are (idle < 0).
//
// Jobs that have to keep their workers are fixed; set refuses to change them.
type desk struct {
	in     allocator.Input
	about  allocator.Devices
	jobs   []allocator.JobView // by SubmittedAt, then ID
	seats  []seat              // beside jobs
	counts []int               // beside jobs: the workers each is to get
	why    []string            // beside jobs

	// A job at its present number stays on its devices if it can; all others are
	// movers and take any usable device that no stayer holds.
	idle int // usable devices that neither a stayer holds nor a mover needs
	// Picky jobs exclude nodes. Their movers fit for sure while the nodes that
	// none of them excludes have room for them; beyond that place.Fits is asked.
	pickyRoom int
}

// seat is what about a job does not change during a decision.
type seat struct {
	fixed    bool
	stays    bool
	picky    bool
	held     int // usable devices that it has
	heldOpen int // of them, those on nodes that no job excludes
}

func sit(in allocator.Input) *desk {
	d := &desk{in: in, about: allocator.NewDevices(in), jobs: slices.Clone(in.Jobs)}
	slices.SortStableFunc(d.jobs, func(x, y allocator.JobView) int {
		if c := x.SubmittedAt.Compare(y.SubmittedAt); c != 0 {
			return c
		}
		return strings.Compare(string(x.ID), string(y.ID))
	})
	closed := map[cluster.NodeID]bool{}
	for _, j := range d.jobs {
		for _, n := range j.Excluded {
			closed[n] = true
		}
	}
	d.idle = d.about.Usable()
	for _, n := range in.Nodes {
		if !closed[n.ID] {
			d.pickyRoom += len(n.Usable())
		}
	}
	d.seats = make([]seat, len(d.jobs))
	d.counts = make([]int, len(d.jobs))
	d.why = make([]string, len(d.jobs))
	for i, j := range d.jobs {
		s := seat{fixed: d.about.MustKeep(j), stays: d.about.Stays(j), picky: len(j.Excluded) > 0}
		for _, node := range d.about.Held(j) {
			s.held++
			if !closed[node] {
				s.heldOpen++
			}
		}
		d.seats[i] = s
		d.counts[i] = j.Workers
		d.book(i, 1)
	}
	return d
}

// book takes (sign 1) or gives back (sign -1) what job i needs at its number.
func (d *desk) book(i, sign int) {
	s := d.seats[i]
	if d.counts[i] == d.jobs[i].Workers && s.stays {
		d.idle -= sign * s.held
		d.pickyRoom -= sign * s.heldOpen
		return
	}
	d.idle -= sign * d.counts[i]
	if s.picky {
		d.pickyRoom -= sign * d.counts[i]
	}
}

// fits reports whether all numbers together can be placed.
func (d *desk) fits() bool {
	if d.idle < 0 {
		return false
	}
	return d.pickyRoom >= 0 || !slices.ContainsFunc(d.seats, func(s seat) bool { return s.picky }) || d.fitsExactly()
}

func (d *desk) fitsExactly() bool {
	var current []cluster.Allocation
	want := make([]place.Count, len(d.jobs))
	for i, j := range d.jobs {
		if j.Present.Placements != nil {
			current = append(current, j.Present)
		}
		want[i] = place.Count{Job: j.ID, Workers: d.counts[i], Excluded: j.Excluded, Keep: d.seats[i].fixed}
	}
	return place.Fits(d.in.Nodes, current, want)
}

// set gives job i this number of workers if it is not fixed and everything
// still fits. Cutting a job to a number that below has named, or to 0, always succeeds.
func (d *desk) set(i, workers int) bool {
	was := d.counts[i]
	if workers == was {
		return true
	}
	if d.seats[i].fixed {
		return false
	}
	idle := d.idle
	d.put(i, workers)
	if workers == 0 || workers < was && d.idle > idle || d.fits() {
		return true
	}
	d.put(i, was)
	return false
}

// put books a number without asking whether it fits.
func (d *desk) put(i, workers int) {
	d.book(i, -1)
	d.counts[i] = workers
	d.book(i, 1)
}

// raise gives job i the largest of its sizes above its present number that fits.
func (d *desk) raise(i int) bool {
	sizes := d.jobs[i].Sizes
	for k := len(sizes) - 1; k >= 0 && sizes[k] > d.counts[i]; k-- {
		if d.set(i, sizes[k]) {
			return true
		}
	}
	return false
}

// step gives job i the next of its sizes.
func (d *desk) step(i int) bool {
	next, ok := d.above(i)
	return ok && d.set(i, next)
}

// above returns the size next above the job's number.
func (d *desk) above(i int) (int, bool) {
	k, found := slices.BinarySearch(d.jobs[i].Sizes, d.counts[i])
	if found {
		k++
	}
	if k == len(d.jobs[i].Sizes) {
		return 0, false
	}
	return d.jobs[i].Sizes[k], true
}

// below returns the size next below the job's number if the job may be cut to
// it and that releases devices: one that sits on a cordoned node would need others.
func (d *desk) below(i int) (int, bool) {
	k, _ := slices.BinarySearch(d.jobs[i].Sizes, d.counts[i])
	s := d.seats[i]
	if k == 0 || d.counts[i] == 0 || s.fixed {
		return 0, false
	}
	less := d.jobs[i].Sizes[k-1]
	return less, d.counts[i] != d.jobs[i].Workers || !s.stays || less < s.held
}

// smallest is the least number of workers that job i can run with.
func (d *desk) smallest(i int) int { return d.jobs[i].Sizes[0] }

// waiting reports whether job i has no workers and may get some.
func (d *desk) waiting(i int) bool { return d.counts[i] == 0 }

// choose returns the job for which less holds against all others that ok
// accepts, the first of them in queue order among equals; -1 if there is none.
func (d *desk) choose(ok func(i int) bool, less func(i, k int) bool) int {
	best := -1
	for i := range d.jobs {
		if ok(i) && (best < 0 || less(i, best)) {
			best = i
		}
	}
	return best
}

// answer is the decision as it stands, with a reason for all that wait.
func (d *desk) answer() allocator.Output {
	var out allocator.Output
	for i, j := range d.jobs {
		decision := allocator.Decision{Job: j.ID, Workers: d.counts[i], Reason: d.why[i]}
		switch decision.Workers {
		case 0:
			decision.Reason = d.whyWaits(i)
		case j.Workers:
			decision.BatchSize = sameBatch(j)
			decision.Reason = ""
			if d.seats[i].fixed && j.Pinned {
				decision.Reason = "pinned: it keeps its world until it has saved"
			}
		}
		out.Decisions = append(out.Decisions, decision)
	}
	return out
}

// sameBatch is the batch size in force where it may stay, else 0, which stands for the smallest.
func sameBatch(j allocator.JobView) int {
	b := j.Present.BatchSize
	if b < j.BatchSize.Min || b > j.BatchSize.Max || b%j.Workers != 0 {
		return 0
	}
	return b
}

func (d *desk) whyWaits(i int) string {
	need, open, all := d.smallest(i), d.about.Open(d.jobs[i]), d.about.Usable()
	switch {
	case need > all:
		return fmt.Sprintf("needs %d or more devices; the cluster has %d usable", need, all)
	case need > open:
		return fmt.Sprintf("needs %d or more devices; the nodes that take it have %d usable", need, open)
	case d.jobs[i].Workers > 0:
		return fmt.Sprintf("gives way: needs %d or more devices; %d of %d are left", need, max(d.idle, 0), all)
	default:
		return fmt.Sprintf("waits: needs %d or more devices; %d of %d are left", need, max(d.idle, 0), all)
	}
}

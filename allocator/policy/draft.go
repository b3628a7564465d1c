package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// draft is a decision in the making: the jobs in queue order, the number of
// workers that each gets, and a set that refuses numbers that do not fit. It
// begins with what is in force, which after a loss of devices may be more than
// there are (idle < 0).
//
// Jobs that have to keep their workers are fixed; set refuses to change them.
type draft struct {
	in      allocator.Input
	devices allocator.Devices
	jobs    []allocator.JobView // by SubmittedAt, then ID
	states  []jobState          // beside jobs
	counts  []int               // beside jobs: the workers that each gets
	why     []string            // beside jobs
	// rebatched jobs start again at their number with the best batch for it.
	rebatched map[int]bool
	guessed   []bool // beside jobs: its work is not known, but expected; nil = of none
	served    served

	// A job at its present number stays on its devices if it can; all others are
	// movers and take any usable device that no stayer holds.
	idle int // usable devices that neither a stayer holds nor a mover needs
	// commonIdle is idle on nodes that no job excludes, as far as jobs with excluded
	// nodes count. While it is not negative their movers certainly fit; otherwise
	// place.Fits is asked.
	commonIdle int
}

// jobState is what does not change about a job during a decision.
type jobState struct {
	fixed      bool
	stays      bool
	excludes   bool
	held       int // usable devices that it has
	heldCommon int // of them, those on nodes that no job excludes
	least      int // workers that it was promised, and has
}

func newDraft(in allocator.Input) *draft {
	d := &draft{in: in, devices: allocator.NewDevices(in), jobs: slices.Clone(in.Jobs)}
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
	d.idle = d.devices.Usable()
	for _, n := range in.Nodes {
		if !closed[n.ID] {
			d.commonIdle += len(n.Usable())
		}
	}
	d.states = make([]jobState, len(d.jobs))
	d.counts = make([]int, len(d.jobs))
	d.why = make([]string, len(d.jobs))
	for i, j := range d.jobs {
		s := jobState{fixed: d.devices.MustKeep(j), stays: d.devices.Stays(j), excludes: len(j.Excluded) > 0}
		for _, node := range d.devices.Held(j) {
			s.held++
			if !closed[node] {
				s.heldCommon++
			}
		}
		d.states[i] = s
		d.counts[i] = j.Workers
		d.reserve(i, 1)
	}
	d.served.spare = max(0, d.idle)
	return d
}

// reserve takes (sign 1) or returns (sign -1) the devices that job i needs at its number.
func (d *draft) reserve(i, sign int) {
	s := d.states[i]
	if d.counts[i] == d.jobs[i].Workers && s.stays {
		d.idle -= sign * s.held
		d.commonIdle -= sign * s.heldCommon
		return
	}
	d.idle -= sign * d.counts[i]
	if s.excludes {
		d.commonIdle -= sign * d.counts[i]
	}
}

// fits reports whether all numbers together can be placed.
func (d *draft) fits() bool {
	if d.idle < 0 {
		return false
	}
	return d.commonIdle >= 0 || !slices.ContainsFunc(d.states, func(s jobState) bool { return s.excludes }) || d.fitsExactly()
}

func (d *draft) fitsExactly() bool {
	var current []cluster.Allocation
	want := make([]place.Count, len(d.jobs))
	for i, j := range d.jobs {
		if j.Present.Placements != nil {
			current = append(current, j.Present)
		}
		want[i] = place.Count{Job: j.ID, Workers: d.counts[i], Excluded: j.Excluded, Keep: d.states[i].fixed}
	}
	return place.Fits(d.in.Nodes, current, want)
}

// set gives job i this number of workers if it is not fixed, was not promised more, and everything
// still fits. Cutting a job to a number that below returned, or to 0, always succeeds.
func (d *draft) set(i, workers int) bool {
	was := d.counts[i]
	if workers == was {
		return true
	}
	if s := d.states[i]; s.fixed || workers < s.least {
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

// put sets a number without checking whether it fits.
func (d *draft) put(i, workers int) {
	d.reserve(i, -1)
	d.counts[i] = workers
	d.reserve(i, 1)
}

// raise gives job i the largest of its sizes above its present number that fits.
func (d *draft) raise(i int) bool {
	sizes := d.jobs[i].Sizes
	for k := len(sizes) - 1; k >= 0 && sizes[k] > d.counts[i]; k-- {
		if d.set(i, sizes[k]) {
			return true
		}
	}
	return false
}

// upTo gives job i the largest of its sizes that is at most n and fits.
func (d *draft) upTo(i int, sizes []int, n int) {
	for _, k := range slices.Backward(sizes) {
		if k <= n && d.set(i, k) {
			return
		}
	}
}

// step gives job i the next of its sizes.
func (d *draft) step(i int) bool {
	next, ok := d.above(i)
	return ok && d.set(i, next)
}

// above returns the size next above the job's number.
func (d *draft) above(i int) (int, bool) {
	k, found := slices.BinarySearch(d.jobs[i].Sizes, d.counts[i])
	if found {
		k++
	}
	if k == len(d.jobs[i].Sizes) {
		return 0, false
	}
	return d.jobs[i].Sizes[k], true
}

// below returns the size next below the job's number if the job may be cut to it
// and that releases devices: on a cordoned node it would need other devices.
func (d *draft) below(i int) (int, bool) {
	k, _ := slices.BinarySearch(d.jobs[i].Sizes, d.counts[i])
	s := d.states[i]
	if k == 0 || d.counts[i] == 0 || s.fixed {
		return 0, false
	}
	less := d.jobs[i].Sizes[k-1]
	return less, d.counts[i] != d.jobs[i].Workers || !s.stays || less < s.held
}

// smallest is the least number of workers that job i can run with.
func (d *draft) smallest(i int) int { return d.jobs[i].Sizes[0] }

// waiting reports whether job i has no workers and may get some.
func (d *draft) waiting(i int) bool { return d.counts[i] == 0 }

// answer is the decision as it stands, with a reason for all that wait.
func (d *draft) answer() allocator.Output {
	var out allocator.Output
	for i, j := range d.jobs {
		decision := allocator.Decision{Job: j.ID, Workers: d.counts[i], Reason: cmp.Or(d.served.reason(d.jobs, d.counts, i), d.why[i])}
		switch decision.Workers {
		case 0:
			decision.Reason = d.waitReason(i)
		case j.Workers:
			decision.Reason = ""
			switch {
			case d.rebatched[i]:
				decision.BatchSize = j.BatchFor(j.Workers)
				decision.Reason = "it comes further with it, the start paid for"
			case !d.states[i].fixed:
			case j.Pinned:
				decision.Reason = "pinned: it keeps its world until it has saved"
			case j.Finishing():
				decision.Reason = "has nothing left to do: it keeps its workers until it ends"
			}
		}
		out.Decisions = append(out.Decisions, decision)
	}
	return out
}

func (d *draft) waitReason(i int) string {
	promised := d.served.reason(d.jobs, d.counts, i)
	need, open, all := d.smallest(i), d.devices.UsableFor(d.jobs[i]), d.devices.Usable()
	switch {
	case need > all:
		return fmt.Sprintf("needs at least %s; the cluster has %d usable", devices(need), all)
	case need > open:
		return fmt.Sprintf("needs at least %s; the nodes that can run it have %d usable", devices(need), open)
	case d.jobs[i].Promise != nil:
		return "waits for later, by which its promised deadline is kept as well"
	case promised != "":
		return fmt.Sprintf("%s: needs at least %s, %d of %d are free", promised, devices(need), max(d.idle, 0), all)
	case d.jobs[i].Workers > 0:
		return fmt.Sprintf("is preempted: needs at least %s, %d of %d are free", devices(need), max(d.idle, 0), all)
	default:
		return fmt.Sprintf("waits: needs at least %s, %d of %d are free", devices(need), max(d.idle, 0), all)
	}
}

// devices is a number of devices in words.
func devices(n int) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}

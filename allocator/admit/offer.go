package admit

import "math"

// Offer is what could be promised to a job whose deadline cannot be kept: any one
// of these, each of them tried with Admit. Zero = that does not help.
type Offer struct {
	Deadline float64 // the earliest found
	Work     float64 // the most, by the deadline asked for
	Most     int     // devices that it may have at most, by the deadline asked for
	Least    int     // devices that it needs at least, by the deadline asked for
}

// tries bounds each of the searches of an offer.
const tries = 24

// Offer finds what could be promised instead to a job that Admit refuses. Ladder is
// the job with all Counts that its script may have; the job's own are a part of them.
func (pl *Plan) Offer(j, ladder Job) Offer {
	var o Offer
	o.Deadline = pl.earliest(j)
	o.Work = pl.most(j)
	low, high := len(ladder.Counts), 0
	for k, n := range ladder.Counts {
		if n >= j.Counts[0] {
			low = min(low, k)
		}
		if n <= j.Counts[len(j.Counts)-1] {
			high = k
		}
	}
	for k := high + 1; k < len(ladder.Counts) && o.Most == 0; k++ {
		if _, ok := pl.Admit(j.with(ladder, low, k)); ok {
			o.Most = ladder.Counts[k]
		}
	}
	for k := low - 1; k >= 0 && o.Least == 0; k-- {
		if _, ok := pl.Admit(j.with(ladder, k, high)); ok {
			o.Least = ladder.Counts[k]
		}
	}
	return o
}

// with is the job with a part of a ladder.
func (j Job) with(ladder Job, low, high int) Job {
	j.Counts, j.Speeds = ladder.Counts[low:high+1], ladder.Speeds[low:high+1]
	if ladder.Pauses != nil {
		j.Pauses = ladder.Pauses[low : high+1]
	}
	return j
}

// earliest is the earliest deadline found that Admit accepts, at a slot's end or
// where the job would end beside all others as they are; 0 if none is.
func (pl *Plan) earliest(j Job) float64 {
	f := pl.filler()
	e := newEntry(j)
	e.Deadline = math.Inf(1)
	best := math.Inf(1)
	for k := range e.rungs {
		if p, ok := f.fill(e, pl.free, level(k)); ok {
			best = math.Min(best, f.start(p[len(p)-1].From))
		}
	}
	kept := func(at float64) bool {
		x := j
		x.Deadline = at
		_, ok := pl.Admit(x)
		return ok
	}
	if math.IsInf(best, 1) || !kept(best) {
		return 0
	}
	low, high := f.after(j.Deadline)-1, f.after(best)
	for n := 0; n < tries && high-low > 1; n++ {
		if mid := (low + high) / 2; kept(f.start(mid)) {
			high, best = mid, f.start(mid)
		} else {
			low = mid
		}
	}
	return best
}

// most is the most work found that Admit accepts, to a thousandth of the job's; 0 if none is.
func (pl *Plan) most(j Job) float64 {
	low, high, work := 0.0, 1.0, j.Work
	for n := 0; n < tries && high-low > 1e-3; n++ {
		mid := (low + high) / 2
		if j.Work = mid * work; j.Work <= 0 {
			break
		}
		if _, ok := pl.Admit(j); ok {
			low = mid
		} else {
			high = mid
		}
	}
	return low * work
}

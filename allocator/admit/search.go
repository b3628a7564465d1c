package admit

import (
	"math"
	"slices"
)

// search looks for other profiles where the least level of a job fails: of the job
// itself and of the rivals that were filled last before it.
type search struct {
	*filler
	plan    *Plan
	budget  int // steps that are left
	touched int // the least index of a rival that has another profile now
}

const (
	// rivals is how many jobs may get other profiles for one that fails. The choices multiply.
	rivals = 3
	// cuts is at how many slots a profile may change its level.
	cuts = 8
)

func newSearch(pl *Plan, f *filler) search {
	return search{filler: f, plan: pl, budget: pl.budget, touched: math.MaxInt}
}

// place finds a profile for job i and takes it: at its least level or, where that
// fails, by changing the profiles of rivals. Nil, and nothing changed, if it finds none.
func (s *search) place(jobs []*entry, profiles []Profile, i int, open *free) Profile {
	e := jobs[i]
	if p, ok := s.share(e, *open); ok {
		open.take(p)
		return p
	}
	if s.budget <= 0 || e.least() == len(e.rungs) {
		return nil
	}
	before := s.steps
	defer func() { s.budget -= s.steps - before }()
	group := []int{i}
	for r := min(i, len(profiles)) - 1; r >= 0 && len(group) <= rivals; r-- {
		if profiles[r] != nil {
			group = append(group, r)
		}
	}
	found := make([]Profile, len(group))
	for n := 1; n <= len(group); n++ { // more rivals only where fewer do not suffice
		for first := range n {
			t := try{search: s, jobs: jobs, group: turn(group[:n], first), open: open, until: before + s.budget}
			if t.with(profiles, found[:n]) {
				for k, g := range t.group {
					if g != i {
						profiles[g] = found[k]
						s.touched = min(s.touched, g)
					}
				}
				return found[slices.Index(t.group, i)]
			}
			if s.steps >= t.until {
				return nil
			}
		}
	}
	return nil
}

// turn is the group in the order of deadlines, which its indices are in, with one of it first.
func turn(group []int, first int) []int {
	out := []int{group[first]}
	for k, g := range slices.Backward(group) {
		if k != first {
			out = append(out, g)
		}
	}
	return out
}

// try is a depth-first search over the profiles of a group, in one order.
type try struct {
	*search
	jobs  []*entry
	group []int
	open  *free
	until int // the number of steps at which it gives up
}

// with puts the profiles of all of the group into found and takes them; false, and nothing changed, if there are none.
func (t *try) with(profiles []Profile, found []Profile) bool {
	failing := len(profiles)
	for _, g := range t.group {
		if g < len(profiles) && profiles[g] != nil {
			t.open.give(profiles[g])
		} else {
			failing = g
		}
		t.plan.reserve(t.open, t.jobs[g], -1)
	}
	if t.next(0, found) {
		return true
	}
	for _, g := range t.group {
		t.plan.reserve(t.open, t.jobs[g], 1)
		if g != failing {
			t.open.take(profiles[g])
		}
	}
	return false
}

func (t *try) next(k int, found []Profile) bool {
	if k == len(t.group) {
		return true
	}
	for _, g := range t.group[k:] { // each that is left can be kept at its highest level at least
		if e := t.jobs[g]; !t.possible(e) {
			return false
		}
	}
	e := t.jobs[t.group[k]]
	t.plan.reserve(t.open, e, 1)
	if k+1 == len(t.group) {
		for p := range t.profiles(e) {
			found[k] = p
			t.open.take(p)
			return true
		}
		t.plan.reserve(t.open, e, -1)
		return false
	}
	for p := range t.profiles(e) {
		t.open.take(p)
		if t.next(k+1, found) {
			found[k] = p
			return true
		}
		t.open.give(p)
		if t.steps >= t.until {
			break
		}
	}
	t.plan.reserve(t.open, e, -1)
	return false
}

// possible reports whether a job can be kept beside all that is taken.
func (t *try) possible(e *entry) bool {
	t.plan.reserve(t.open, e, 1)
	defer t.plan.reserve(t.open, e, -1)
	if _, ok := t.fill(e, *t.open, level(len(e.rungs)-1)); ok {
		return true
	}
	return e.Pauses != nil // then fewer changes can do more
}

// profiles yields those of a job that keep its deadline in what is free: one level
// throughout, then one level before a slot and another from it on.
func (t *try) profiles(e *entry) func(func(Profile) bool) {
	return func(yield func(Profile) bool) {
		var seen []Profile
		offer := func(s shape) bool {
			p, ok := t.fill(e, *t.open, s)
			if !ok || slices.ContainsFunc(seen, func(q Profile) bool { return slices.Equal(p, q) }) {
				return t.steps < t.until
			}
			seen = append(seen, slices.Clone(p))
			return yield(seen[len(seen)-1])
		}
		low, top := e.least(), len(e.rungs)-1
		for k := low; k <= top; k++ {
			if !offer(level(k)) {
				return
			}
		}
		for _, at := range t.slots(e) {
			for after := -1; after <= top; after++ {
				for before := -1; before <= top; before++ {
					if before != after && max(before, after) >= low && !offer(shape{before, at, after}) {
						return
					}
				}
			}
		}
	}
}

// slots are those at which a job's level may change: evenly apart, to its deadline.
func (t *try) slots(e *entry) []int {
	end := t.after(e.Deadline)
	var out []int
	for k := 1; k <= cuts; k++ {
		at := k * end / (cuts + 1)
		if end <= cuts {
			at = k
		}
		if at > 0 && at < end && (len(out) == 0 || out[len(out)-1] < at) {
			out = append(out, at)
		}
	}
	return out
}

package admit

import (
	"cmp"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Plan is the profiles of all jobs whose deadlines are kept. It is a value: Admit
// returns another one.
type Plan struct {
	problem  Problem  // without jobs
	jobs     []*entry // whose deadlines are kept, by deadline, then in the order of the problem
	profiles []Profile
	rest     []*entry // the others: those without a deadline, and those whose deadline cannot be kept
	free     free     // beside all of these
	marks    []free   // marks[k] is what is free beside the first k·stride jobs
	budget   int
	keeping  bool // some job keeps what it has in the running slot
}

// stride is how many jobs lie between two marks: a mark costs as much as taking a few jobs.
const stride = 64

// Budget is how many steps a search for other profiles may go through, in one New
// or Admit, where filling fails: a few milliseconds. A count, so that the answer
// is the same on every machine.
const Budget = 1 << 18

// New plans a problem. It keeps every deadline that can be: the jobs that were
// promised theirs first, if need be as they were promised it, then the others in
// the order of their deadlines.
func New(p Problem) (*Plan, error) { return newPlan(p, Budget) }

// Follow plans a problem as it was promised: the profiles that still keep their
// deadlines stand, and what is left goes to the other jobs in the order of theirs.
// Only where that breaks more promises than filling anew is all filled anew.
func Follow(p Problem) (*Plan, error) {
	empty, due, err := begin(p, Budget)
	if err != nil {
		return nil, err
	}
	held := empty.with(due, true)
	if broken := held.broken(); broken > 0 {
		if fresh := empty.with(due, false); fresh.broken() < broken {
			return fresh, nil
		}
	}
	return held, nil
}

func newPlan(p Problem, budget int) (*Plan, error) {
	empty, due, err := begin(p, budget)
	if err != nil {
		return nil, err
	}
	fresh := empty.with(due, false)
	if broken := fresh.broken(); broken > 0 {
		if held := empty.with(due, true); held.broken() < broken {
			return held, nil
		}
	}
	return fresh, nil
}

// begin is a plan in which nothing is filled yet, and the jobs to fill by their deadlines.
func begin(p Problem, budget int) (empty *Plan, due []*entry, err error) {
	if err = p.Validate(); err != nil {
		return nil, nil, err
	}
	empty = &Plan{budget: budget}
	for _, j := range p.Jobs {
		e := newEntry(j)
		if empty.keeping = empty.keeping || e.Kept; math.IsInf(j.Deadline, 1) {
			empty.rest = append(empty.rest, e)
		} else {
			due = append(due, e)
		}
	}
	slices.SortStableFunc(due, func(a, b *entry) int { return cmp.Compare(a.Deadline, b.Deadline) })
	empty.problem = p
	empty.problem.Jobs = nil
	return empty, due, nil
}

// with is an empty plan with all of these filled, the earliest deadline first. With
// hold, those that were promised a profile have it before any other is filled.
func (pl *Plan) with(due []*entry, hold bool) *Plan {
	pl = &Plan{problem: pl.problem, rest: slices.Clone(pl.rest), budget: pl.budget, keeping: pl.keeping}
	f := pl.filler()
	open := pl.empty(due)
	held := make([]Profile, len(due))
	if hold {
		for i := range due {
			e := due[i]
			if _, ok := f.keeps(e, e.Promised); ok {
				pl.reserve(&open, e, 1)
				if open.takeWhole(e.Promised) {
					held[i] = e.Promised
				} else {
					pl.reserve(&open, e, -1)
				}
			}
		}
	}
	s := newSearch(pl, f)
	for _, i := range order(due, hold) {
		if held[i] != nil {
			continue
		}
		pl.reserve(&open, due[i], 1)
		if held[i] = s.place(due, held, i, &open); held[i] == nil {
			pl.reserve(&open, due[i], -1)
		}
	}
	for i, e := range due {
		if held[i] == nil {
			pl.rest = append(pl.rest, e)
			continue
		}
		pl.jobs, pl.profiles = append(pl.jobs, e), append(pl.profiles, held[i])
	}
	pl.mark(0)
	return pl
}

// order is the order in which jobs are filled: by deadline, but with hold those that were promised theirs first.
func order(due []*entry, hold bool) []int {
	out := make([]int, len(due))
	for i := range due {
		out[i] = i
	}
	if hold {
		slices.SortStableFunc(out, func(a, b int) int {
			switch pa, pb := due[a].Promised != nil, due[b].Promised != nil; {
			case pa == pb:
				return 0
			case pa:
				return -1
			}
			return 1
		})
	}
	return out
}

func (pl *Plan) filler() *filler { return &filler{Problem: &pl.problem} }

// broken is how many jobs were promised their deadlines and miss them.
func (pl *Plan) broken() (n int) {
	for i := range pl.rest {
		if pl.rest[i].Promised != nil {
			n++
		}
	}
	return n
}

// empty is what is free beside what jobs keep in the running slot, planned or not.
func (pl *Plan) empty(jobs []*entry) free {
	f := free{{0, pl.problem.Devices}}
	for _, list := range [][]*entry{jobs, pl.rest} {
		for i := range list {
			pl.reserve(&f, list[i], -1)
		}
	}
	return f
}

// reserve makes what a job keeps in the running slot used (-1) or free (1): its profile has it as well.
func (pl *Plan) reserve(f *free, e *entry, sign int) {
	if pl.keeping && e.Kept {
		f.add(0, 1, sign*e.Present)
	}
}

// mark makes the marks from that of a job on, and what is free at the end.
func (pl *Plan) mark(from int) {
	k := from / stride
	open := pl.empty(pl.jobs)
	if k > 0 && k < len(pl.marks) {
		open = slices.Clone(pl.marks[k])
	} else {
		k = 0
	}
	pl.marks = slices.Clone(pl.marks[:min(k, len(pl.marks))])
	for i := k * stride; i < len(pl.jobs); i++ {
		if i%stride == 0 {
			pl.marks = append(pl.marks, slices.Clone(open))
		}
		pl.reserve(&open, pl.jobs[i], 1)
		open.take(pl.profiles[i])
	}
	pl.free = open
}

// before is what is free beside the jobs before one.
func (pl *Plan) before(at int) free {
	k := at / stride
	if k >= len(pl.marks) {
		k = len(pl.marks) - 1
	}
	if k < 0 {
		return pl.empty(pl.jobs)
	}
	open := slices.Clone(pl.marks[k])
	for i := k * stride; i < at; i++ {
		pl.reserve(&open, pl.jobs[i], 1)
		open.take(pl.profiles[i])
	}
	return open
}

// Admit adds a job with a deadline, if its deadline can be kept and no other is
// broken by that; only the jobs with later deadlines are filled again, and of
// these only those whose profiles no longer fit. The plan itself stays as it is.
func (pl *Plan) Admit(j Job) (*Plan, bool) {
	if math.IsInf(j.Deadline, 1) || j.validate(pl.problem.Slot) != nil || j.Kept {
		return nil, false
	}
	at, _ := slices.BinarySearchFunc(pl.jobs, j.Deadline, func(e *entry, d float64) int {
		if e.Deadline <= d {
			return -1
		}
		return 1
	})
	next := &Plan{problem: pl.problem, rest: pl.rest, budget: pl.budget, keeping: pl.keeping}
	next.jobs = slices.Insert(slices.Clone(pl.jobs), at, newEntry(j))
	next.profiles = slices.Insert(slices.Clone(pl.profiles), at, nil)
	open := pl.before(at)
	s := newSearch(next, next.filler())
	if len(pl.marks) > 0 {
		next.marks = slices.Clone(pl.marks[:min(at/stride+1, len(pl.marks))])
	}
	for i := at; i < len(next.jobs); i++ {
		if i%stride == 0 && i/stride == len(next.marks) {
			next.marks = append(next.marks, slices.Clone(open))
		}
		e := next.jobs[i]
		next.reserve(&open, e, 1)
		if p := next.profiles[i]; p != nil && open.takeWhole(p) {
			continue
		}
		if next.profiles[i] = s.place(next.jobs, next.profiles[:i], i, &open); next.profiles[i] == nil {
			return nil, false
		}
	}
	if next.free = open; s.touched < len(next.jobs) {
		next.mark(min(at, s.touched)) // marks were made before a rival's profile changed
	}
	return next, true
}

// Kept reports whether the plan keeps the deadline of the job, and its profile.
func (pl *Plan) Kept(id cluster.JobID) (Profile, bool) {
	for i := range pl.jobs {
		if pl.jobs[i].ID == id {
			return pl.profiles[i], true
		}
	}
	return nil, false
}

// Profiles yields the jobs whose deadlines are kept, in the order of these, with their profiles.
func (pl *Plan) Profiles(yield func(cluster.JobID, Profile) bool) {
	for i := range pl.jobs {
		if !yield(pl.jobs[i].ID, pl.profiles[i]) {
			return
		}
	}
}

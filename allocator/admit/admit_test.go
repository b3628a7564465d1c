package admit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func power(n int, exponent float64) float64 { return math.Pow(float64(n), exponent) }

// beside is the profiles beside the jobs of a problem, nil for those that are not kept.
func (pl *Plan) beside(p Problem) []Profile {
	out := make([]Profile, len(p.Jobs))
	for i := range p.Jobs {
		out[i], _ = pl.Kept(p.Jobs[i].ID)
	}
	return out
}

// linear is a job whose speed is its number of devices.
func linear(id string, work, deadline float64, counts ...int) Job {
	j := Job{ID: cluster.JobID(id), Work: work, Deadline: deadline, Counts: counts}
	for _, n := range counts {
		j.Speeds = append(j.Speeds, float64(n))
	}
	return j
}

func mustPlan(t *testing.T, p Problem) *Plan {
	t.Helper()
	pl, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(&p, pl.beside(p)); err != nil {
		t.Fatal(err)
	}
	return pl
}

func TestValidateNamesFieldValueAndRemedy(t *testing.T) {
	good := linear("a", 1, 1, 1, 2)
	with := func(change func(j *Job)) Problem {
		j := good
		j.Counts, j.Speeds = slices.Clone(j.Counts), slices.Clone(j.Speeds)
		change(&j)
		return Problem{Devices: 2, First: 1, Slot: 1, Jobs: []Job{j}}
	}
	for _, c := range []struct {
		p    Problem
		want string
	}{
		{Problem{Devices: -1, First: 1, Slot: 1}, "devices -1: use 0 or more"},
		{Problem{First: 1}, "slot 0: use a positive length"},
		{Problem{First: 2, Slot: 1}, "first 2: use more than 0 and at most slot 1"},
		{Problem{Slot: 1}, "first 0: use more than 0"},
		{with(func(j *Job) { j.Work = 0 }), `job "a": work 0: use a positive number`},
		{with(func(j *Job) { j.Deadline = 0 }), "deadline 0: use a moment to come"},
		{with(func(j *Job) { j.Deadline = 1e10 }), "deadline 1e+10: it is more than"},
		{with(func(j *Job) { j.Counts = nil }), "0 counts, 2 speeds: use as many of both"},
		{with(func(j *Job) { j.Pauses = []float64{1} }), "1 pauses for 2 counts: use one for each"},
		{with(func(j *Job) { j.Pauses = []float64{1, -1} }), "pause -1 on 2 devices: use 0 or more"},
		{with(func(j *Job) { j.Counts[0] = 2 }), "counts [2 2]: use ascending numbers from 1"},
		{with(func(j *Job) { j.Speeds[1] = math.NaN() }), "speed NaN on 2 devices: use a positive number"},
		{with(func(j *Job) { j.Present = 3 }), "present 3: use 0 or one of counts [1 2]"},
		{with(func(j *Job) { j.Owed = -1 }), "owed -1: use 0 or more"},
		{func() Problem {
			p := with(func(j *Job) { j.Present, j.Kept = 2, true })
			p.Devices = 1
			return p
		}(), "devices 1: jobs that keep theirs have 2"},
	} {
		if _, err := New(c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant …%s…", err, c.want)
		}
	}
}

// The least level that keeps the deadline, around what earlier jobs have.
func TestMinimumSatisfactoryShare(t *testing.T) {
	p := Problem{Devices: 4, First: 1, Slot: 1, Jobs: []Job{
		linear("first", 6, 2, 1, 2, 4), // 4 devices for 1.5 slots
		linear("later", 4, 5, 1, 2, 4), // nothing is left before slot 2; then 2 devices do
	}}
	pl := mustPlan(t, p)
	for id, want := range map[cluster.JobID]string{"first": "[{0 4} {2 0}]", "later": "[{0 0} {2 2} {4 0}]"} {
		if f, _ := pl.Kept(id); fmt.Sprint(f) != want {
			t.Errorf("%s has %v, want %s", id, f, want)
		}
	}
	if _, ok := pl.Admit(linear("more", 11, 4, 1, 2, 4)); ok {
		t.Error("admitted 17 by slot 4 of 4 devices")
	}
	next, ok := pl.Admit(linear("fits", 4, 4, 1, 2, 4))
	if _, kept := next.Kept("later"); !ok || !kept || len(pl.jobs) != 2 {
		t.Errorf("admitted %t, later kept %t, the plan before has %d jobs", ok, kept, len(pl.jobs))
	}
}

// A pause is lost time: a job that would end in time on devices that it has does not on others.
func TestPausesAreCharged(t *testing.T) {
	j := linear("a", 2, 2, 1)
	j.Pauses = []float64{0.5}
	empty := mustPlan(t, Problem{Devices: 1, First: 1, Slot: 1})
	if _, ok := empty.Admit(j); ok {
		t.Error("the pause of the start was not charged")
	}
	j.Present = 1
	if _, ok := empty.Admit(j); !ok {
		t.Error("charged a pause to a job that stays as it is")
	}
	j.Owed = 0.1
	if _, ok := empty.Admit(j); ok {
		t.Error("what is left of the last pause was not charged")
	}
}

// A promise that filling anew cannot keep stands as it was made.
func TestPromisedProfilesStand(t *testing.T) {
	jobs := []Job{linear("a", 4, 2, 1, 2, 4), linear("b", 2, 3, 1, 2, 4), linear("c", 6, 3, 2, 4)}
	p := Problem{Devices: 4, First: 1, Slot: 1, Jobs: jobs}
	filled, err := newPlan(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(filled.jobs) == 3 {
		t.Fatal("filling keeps all three: this tries nothing")
	}
	searched := mustPlan(t, p)
	if len(searched.jobs) != 3 {
		t.Fatalf("the search keeps %d of 3", len(searched.jobs))
	}
	for i := range jobs {
		jobs[i].Promised, _ = searched.Kept(jobs[i].ID)
	}
	held, err := newPlan(p, 0)
	if err != nil || len(held.jobs) != 3 {
		t.Errorf("kept %d of 3 promises (%v)", len(held.jobs), err)
	}
}

// What a plan remembers of its parts is what they come to, whatever was admitted in which order.
func TestAdmitKeepsItsAccounts(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	p := large(r, 300, 256, 288)
	for i := range p.Jobs {
		p.Jobs[i].Work *= 2
	}
	all := p
	pl := mustPlan(t, p)
	for i := range 300 {
		j := largeJob(r, 1000+i, p.Slot*288*256/300, p.Slot*288)
		all.Jobs = append(all.Jobs, j)
		next, ok := pl.Admit(j)
		if !ok {
			continue
		}
		pl = next
		open := free{{0, p.Devices}}
		for i, f := range pl.profiles {
			if got := pl.before(i); !slices.Equal(got, open) {
				t.Fatalf("after %d admissions %v is free before job %d, not %v", i, got, i, open)
			}
			open.take(f)
		}
		if !slices.Equal(pl.free, open) {
			t.Fatalf("%v is free, not %v", pl.free, open)
		}
	}
	if err := Check(&all, pl.beside(all)); err != nil {
		t.Error(err)
	}
	if n := len(pl.jobs); n <= 300 || n == 600 {
		t.Errorf("%d jobs: nothing was admitted, or nothing refused", n)
	}
}

// Devices that the plan leaves go where they save the most device time, or cost the least.
func TestSpreadByMarginalReturn(t *testing.T) {
	flat := Job{ID: "flat", Work: 8, Deadline: 8, Counts: []int{1, 2, 4}, Speeds: []float64{1, 1.2, 1.3}}
	steep := linear("steep", 8, 8, 1, 2, 4)
	none := linear("none", 5, math.Inf(1), 1, 2, 4)
	waits := linear("waits", 5, math.Inf(1), 4)
	for _, c := range []struct {
		devices int
		want    string
	}{
		{2, "[{flat 1} {steep 1} {none 0} {waits 0}]"},
		{3, "[{flat 1} {steep 1} {none 1} {waits 0}]"},
		{4, "[{flat 1} {steep 2} {none 1} {waits 0}]"},
		{7, "[{flat 1} {steep 1} {none 1} {waits 4}]"},
		{9, "[{flat 1} {steep 2} {none 2} {waits 4}]"},
		{20, "[{flat 4} {steep 4} {none 4} {waits 4}]"},
	} {
		pl := mustPlan(t, Problem{Devices: c.devices, First: 1, Slot: 1, Jobs: []Job{flat, steep, none, waits}})
		if got := fmt.Sprint(pl.Spread()); got != c.want {
			t.Errorf("on %d devices %s, want %s", c.devices, got, c.want)
		}
	}
	steep.Pauses = []float64{0, 1, 1} // what it would gain by more devices in a slot is lost in the pause
	steep.Present = 1
	pl := mustPlan(t, Problem{Devices: 4, First: 1, Slot: 1, Jobs: []Job{steep}})
	if got := fmt.Sprint(pl.Spread()); got != "[{steep 1}]" {
		t.Errorf("%s: a change that gains nothing", got)
	}
}

// Each part of an offer is one that Admit accepts.
func TestOffersCanBeKept(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	var deadlines, works, mosts, leasts int
	for n := range 300 {
		if testing.Short() && n >= 100 && mosts > 0 && leasts > 0 {
			break // both are offered rarely, and with this seed soon
		}
		p := large(r, 1+r.IntN(20), 1+r.IntN(32), 24)
		for i := range p.Jobs {
			p.Jobs[i].Work *= 2
		}
		pl := mustPlan(t, p)
		ladder := largeJob(r, 100+n, 1e6*r.Float64(), p.Slot*24)
		j := ladder.with(ladder, 2, 3)
		if _, ok := pl.Admit(j); ok {
			continue
		}
		o := pl.Offer(j, ladder)
		accepts := func(change func(*Job)) {
			x := j
			change(&x)
			if _, ok := pl.Admit(x); !ok {
				t.Fatalf("offered %+v to %+v, and refuses it", o, j)
			}
		}
		if o.Deadline > 0 {
			deadlines++
			if o.Deadline < j.Deadline {
				t.Errorf("deadline %v is before %v", o.Deadline, j.Deadline)
			}
			accepts(func(x *Job) { x.Deadline = o.Deadline })
		} else if p.Devices >= j.Counts[0] {
			t.Errorf("no deadline for a job that fits: %+v", o)
		}
		if o.Work > 0 {
			works++
			accepts(func(x *Job) { x.Work = o.Work })
		}
		if o.Most > 0 {
			mosts++
			accepts(func(x *Job) { *x = j.with(ladder, 2, slices.Index(ladder.Counts, o.Most)) })
		}
		if o.Least > 0 {
			leasts++
			accepts(func(x *Job) { *x = j.with(ladder, slices.Index(ladder.Counts, o.Least), 3) })
		}
	}
	t.Logf("offered %d deadlines, %d amounts of work, %d larger maxima, %d lower minima", deadlines, works, mosts, leasts)
	if deadlines == 0 || works == 0 || mosts == 0 || leasts == 0 {
		t.Error("some kind of offer was never made")
	}
}

// Where a start costs more than a slot, a job that is in no plan still grows if it ends
// sooner for it, and stays as it is if not.
func TestALoneJobGrowsThoughAStartCostsASlot(t *testing.T) {
	for work, want := range map[float64]string{100: "[{lone 4}]", 2: "[{lone 1}]"} {
		lone := linear("lone", work, math.Inf(1), 1, 2, 4)
		lone.Pauses, lone.Present = []float64{2, 2, 2}, 1
		pl := mustPlan(t, Problem{Devices: 4, First: 1, Slot: 1, Jobs: []Job{lone}})
		if got := fmt.Sprint(pl.Spread()); got != want {
			t.Errorf("with work %v left %s, want %s", work, got, want)
		}
	}
}

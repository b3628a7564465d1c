package admit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

// world is a cluster on which what is promised comes true or does not: it decides
// at each slot's end, and admits jobs that come in between.
type world struct {
	r        *rand.Rand
	devices  int
	budget   int
	slot     float64
	now      float64 // since the running slot began
	clock    float64
	jobs     []*living
	admitted int
	refused  int
	held     int // decisions that only the promised profiles could make
}

type living struct {
	Job
	due      float64 // on the clock
	promised bool
}

func (w *world) problem() (p Problem) {
	p = Problem{Devices: w.devices, First: w.slot - w.now, Slot: w.slot}
	for _, j := range w.jobs {
		x := j.Job
		x.Deadline, x.Kept = j.due-w.clock, w.now > 0 && x.Present > 0
		p.Jobs = append(p.Jobs, x)
	}
	return p
}

// plan plans anew, and holds the plan to everything that was promised.
func (w *world) plan(t *testing.T) *Plan {
	t.Helper()
	p := w.problem()
	pl, err := newPlan(p, w.budget)
	if err != nil {
		t.Fatal(err)
	}
	w.verify(t, p, pl)
	return pl
}

func (w *world) verify(t *testing.T, p Problem, pl *Plan) {
	t.Helper()
	profiles := pl.beside(p)
	if err := Check(&p, profiles); err != nil {
		t.Fatalf("%+v\n%v: %v", p, profiles, err)
	}
	for i, j := range w.jobs {
		if j.promised && profiles[i] == nil {
			t.Fatalf("job %s was promised %v and is not kept: %+v", j.ID, j.due, p)
		}
	}
	w.keep(pl)
}

func (w *world) keep(pl *Plan) {
	for _, j := range w.jobs {
		if j.promised {
			j.Promised, _ = pl.Kept(j.ID)
		}
	}
}

// draw is a job of any curve: speeds that fall, sizes that are no powers of two, pauses longer than a slot.
func (w *world) draw(id int) *living {
	j := &living{Job: Job{ID: cluster.JobID(fmt.Sprint(id))}}
	for n := 1; n <= w.devices; n++ {
		if w.r.IntN(2) == 0 || n == w.devices && j.Counts == nil {
			j.Counts = append(j.Counts, n)
			j.Speeds = append(j.Speeds, power(n, 0.5+0.6*w.r.Float64()))
			j.Pauses = append(j.Pauses, w.slot*w.r.Float64()*[]float64{0, 0.2, 1.5}[w.r.IntN(3)])
		}
	}
	span := w.slot * (0.3 + 8*w.r.Float64())
	j.Work = span * slices.Max(j.Speeds) * (0.05 + 0.9*w.r.Float64())
	if j.due = w.clock + span; w.r.IntN(5) == 0 {
		j.due = math.Inf(1)
	}
	return j
}

func (w *world) arrive(t *testing.T, id int) {
	t.Helper()
	j := w.draw(id)
	pl := w.plan(t)
	x := j.Job
	x.Deadline = j.due - w.clock
	next, ok := pl.Admit(x)
	switch {
	case ok:
		w.admitted++
		j.promised = true
		w.jobs = append(w.jobs, j)
		w.verify(t, w.problem(), next)
		for _, o := range w.jobs { // those whose profiles begin in the running slot start
			if at := o.Promised.At(0); o.promised && o.Present == 0 && at > 0 {
				o.start(at)
			}
		}
	case math.IsInf(j.due, 1):
		w.jobs = append(w.jobs, j)
	default:
		w.refused++
	}
}

func (j *living) start(devices int) {
	j.Owed = 0
	if k := slices.Index(j.Counts, devices); k >= 0 {
		j.Owed = j.Pauses[k]
	}
	j.Present = devices
}

// advance trains for some time, and ends what is done.
func (w *world) advance(t *testing.T, span float64) {
	t.Helper()
	for _, j := range w.jobs {
		if j.Present == 0 {
			continue
		}
		speed := j.Speeds[slices.Index(j.Counts, j.Present)]
		if trained := span - j.Owed; trained*speed >= j.Work-1e-7 {
			if end := w.clock + j.Owed + j.Work/speed; j.promised && end > j.due+1e-6 {
				t.Fatalf("job %s ends at %v, promised %v", j.ID, end, j.due)
			}
			j.Work, j.Present = 0, 0
		} else {
			j.Work -= speed * max(0, trained)
		}
		j.Owed = max(0, j.Owed-span)
	}
	w.clock += span
	w.now += span
	w.jobs = slices.DeleteFunc(w.jobs, func(j *living) bool { return j.Work == 0 })
	for _, j := range w.jobs {
		if j.promised && j.due <= w.clock {
			t.Fatalf("job %s has %v of its work left at its deadline %v", j.ID, j.Work, j.due)
		}
	}
}

// boundary decides at a slot's end.
func (w *world) boundary(t *testing.T) {
	t.Helper()
	w.now = 0
	for _, j := range w.jobs {
		j.Promised = j.Promised.After(1)
	}
	p := w.problem()
	if len(p.Jobs) > 0 {
		fresh := p
		fresh.Jobs = slices.Clone(p.Jobs)
		for i := range fresh.Jobs {
			fresh.Jobs[i].Promised = nil
		}
		pl, err := newPlan(fresh, w.budget)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range w.jobs {
			if _, ok := pl.Kept(j.ID); j.promised && !ok {
				w.held++
				break
			}
		}
	}
	used := 0
	for _, s := range w.plan(t).Spread() {
		used += s.Devices
		for _, j := range w.jobs {
			if j.ID == s.Job && j.Present != s.Devices {
				j.start(s.Devices)
			}
		}
	}
	if used > w.devices {
		t.Fatalf("%d devices of %d", used, w.devices)
	}
}

// TestPromisesAreKept plays random clusters: what was once admitted ends by its
// deadline, whatever is admitted later, between decisions or at them.
func TestPromisesAreKept(t *testing.T) {
	const cases = 10_000
	var admitted, refused, held int
	for seed := range uint64(cases) {
		w := &world{r: rand.New(rand.NewPCG(seed, 3)), slot: 1, budget: Budget * int(seed%2)}
		w.devices = 1 + w.r.IntN(8)
		jobs := 3 + w.r.IntN(8)
		for id := 0; id < jobs || len(w.jobs) > 0; {
			w.boundary(t)
			for w.now < w.slot-1e-6 {
				span := w.slot - w.now
				if id < jobs && w.r.IntN(3) > 0 {
					span *= w.r.Float64()
				}
				if w.slot-w.now-span < 1e-3 {
					span = w.slot - w.now
				}
				if w.advance(t, span); w.now < w.slot-1e-6 {
					w.arrive(t, id)
					id++
				}
			}
			if w.clock > 1000 {
				t.Fatalf("seed %d: %d jobs have not ended", seed, len(w.jobs))
			}
			if id >= jobs && !slices.ContainsFunc(w.jobs, func(j *living) bool { return j.promised }) {
				break
			}
		}
		admitted, refused, held = admitted+w.admitted, refused+w.refused, held+w.held
	}
	t.Logf("%d deadlines admitted, %d refused, none broken; %d decisions kept a promise that filling anew would have broken", admitted, refused, held)
	if admitted == 0 || refused == 0 || held == 0 {
		t.Errorf("%d admitted, %d refused, %d held: the cases try nothing", admitted, refused, held)
	}
}

package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/allocator/capacity"
)

// Job is a job whose times are known. All times are in hours.
type Job struct {
	Name     string
	Submit   float64
	Deadline float64 // on the clock of Submit; +Inf = none
	Weight   float64 // ω: cost of an hour of lateness
	// Times are those of the whole job, by type and number of devices from one on; nil or +Inf = it cannot run so.
	Times [][]float64
}

// Rule is who decides.
type Rule string

// The rules. All but Jahani give each job a node of its own until it ends, of the type and
// number of devices that Jahani chooses for it alone when it starts (section V-B).
const (
	Jahani Rule = "jahani"
	FIFO   Rule = "fifo"
	EDF    Rule = "edf"
	PS     Rule = "ps" // the dearest lateness first
)

// Options say how a plan is made.
type Options struct {
	Rule    Rule    // empty = Jahani
	Nodes   int     // that may run at once; 0 = as many as there are jobs
	Horizon float64 // H: the longest time between two decisions; 0 = an hour
	Start   float64 // what a start on another node or number of devices costs in time
	// Printed is the paper's model as it is printed: as many nodes run as there are jobs for,
	// an idle device costs 1, and waiting is free to jobs that have time.
	Printed bool
	// Urgency multiplies all weights for the decisions, not for the bill; 0 = 1.
	Urgency float64
}

// maxDecisions bounds a plan: ten years of hours, and far more events than jobs have. The
// printed model leaves a job without a deadline waiting for ever.
const maxDecisions = 100_000

// Outcome is what came of a plan.
type Outcome struct {
	Jobs      []JobOutcome
	Phases    []Phase
	NodeHours []float64 // by type
	Cost      float64   // of all nodes while they ran
	Shares    float64   // of it, the shares of jobs: idle devices left out, as equation (16)
	LateCost  float64   // weights × lateness
	LateHours float64
	LateJobs  int
	End       float64 // when the last job ended
	Decisions int
	// Value and Bound are the sums over all decisions of what they cost by the objective and
	// what the best could have cost at least.
	Value, Bound float64
}

// Gap is how far the decisions may be from the best, together and relative to the bound.
func (o Outcome) Gap() float64 {
	return capacity.Result{Cost: o.Value, Bound: o.Bound}.Gap()
}

// JobOutcome is what came of a job.
type JobOutcome struct {
	Name               string
	Submit, Start, End float64
	Deadline           float64 // +Inf = none
	Late               float64
	Types              []int // that it ran on, in this order
	Cost               float64
}

// Phase is a time in which the same nodes ran.
type Phase struct {
	From, To float64
	Nodes    []int // by type
}

// state is a job under way.
type state struct {
	Job
	left    float64 // of the whole, 1 = all
	place   place
	pause   float64 // of its last start that is still to be paid
	outcome JobOutcome
	started bool
}

// place is where a job runs; devices 0 = it waits.
type place struct{ node, typ, devices int }

// world is a plan under way.
type world struct {
	c      Catalogue
	o      Options
	now    float64
	coming []*state // by submission
	open   []*state
	all    []*state // in the order of Run's jobs
	nodes  capacity.Plan
	out    Outcome
}

// Run goes through time until all jobs have ended.
func Run(c Catalogue, jobs []Job, o Options) (Outcome, error) {
	o.Rule, o.Horizon, o.Urgency = cmp.Or(o.Rule, Jahani), cmp.Or(o.Horizon, 1), cmp.Or(o.Urgency, 1)
	o.Nodes = min(cmp.Or(o.Nodes, max(1, len(jobs))), capacity.MaxNodes)
	w := &world{c: c, o: o, out: Outcome{NodeHours: make([]float64, len(c.Types))}}
	for _, j := range jobs {
		w.coming = append(w.coming, &state{Job: j, left: 1, outcome: JobOutcome{Name: j.Name, Submit: j.Submit, Deadline: j.Deadline}})
	}
	w.all = slices.Clone(w.coming)
	slices.SortStableFunc(w.coming, func(a, b *state) int { return cmp.Compare(a.Submit, b.Submit) })
	for len(w.coming) > 0 || len(w.open) > 0 {
		if w.out.Decisions++; w.out.Decisions > maxDecisions {
			return w.out, fmt.Errorf("plan: %s not ended after %d decisions: raise --horizon, or plan fewer or shorter jobs", have(len(w.open)+len(w.coming)), maxDecisions)
		}
		for len(w.coming) > 0 && w.coming[0].Submit <= w.now {
			w.open, w.coming = append(w.open, w.coming[0]), w.coming[1:]
		}
		if err := w.decide(); err != nil {
			return w.out, fmt.Errorf("plan at %.2f h: %w", w.now, err)
		}
		w.advance(w.next())
	}
	w.finish()
	return w.out, nil
}

// have is so many jobs as a subject.
func have(jobs int) string {
	if jobs == 1 {
		return "1 job has"
	}
	return fmt.Sprintf("%d jobs have", jobs)
}

// decide asks the rule which nodes run, and moves the jobs.
func (w *world) decide() error {
	if len(w.open) == 0 {
		w.nodes = nil
		return nil
	}
	var next capacity.Plan
	if w.o.Rule == Jahani {
		r, err := capacity.Solve(w.problem(w.open, w.o.Nodes))
		if err != nil {
			return err
		}
		next = r.Plan
		w.out.Value += r.Cost
		w.out.Bound += r.Bound
	} else {
		var err error
		if next, err = w.alone(); err != nil {
			return err
		}
	}
	w.move(next)
	return nil
}

// alone is the plan of a rule of thumb: what runs goes on, and while there are nodes, the
// next job has one for itself.
func (w *world) alone() (capacity.Plan, error) {
	var next capacity.Plan
	for _, i := range w.first() {
		s := w.open[i]
		if s.place.devices > 0 {
			next = append(next, capacity.Node{Type: s.place.typ, Shares: []capacity.Share{{Job: i, Devices: s.place.devices}}})
			continue
		}
		r, err := capacity.Solve(w.problem(w.open[i:i+1], 1))
		if err != nil {
			return nil, err
		}
		for _, n := range r.Plan {
			for s := range n.Shares {
				n.Shares[s].Job = i
			}
			next = append(next, n)
		}
	}
	return next, nil
}

// first are the jobs that run by a rule of thumb, as many as there are nodes: those that run
// already, then by its order.
func (w *world) first() []int {
	order := make([]int, len(w.open))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := w.open[x], w.open[y]
		switch {
		case (a.place.devices > 0) != (b.place.devices > 0):
			return cmp.Compare(b.place.devices, a.place.devices)
		case w.o.Rule == EDF:
			return cmp.Compare(a.Deadline, b.Deadline)
		case w.o.Rule == PS:
			return cmp.Compare(b.Weight, a.Weight)
		}
		return 0 // in the order of submission
	})
	return order[:min(len(order), w.o.Nodes)]
}

// problem is the question of section IV about the jobs, as they are now.
func (w *world) problem(jobs []*state, nodes int) *capacity.Problem {
	p := &capacity.Problem{Nodes: nodes, Full: w.o.Printed}
	prices := make([]float64, len(w.c.Types))
	for v, t := range w.c.Types {
		prices[v] = t.Price
		p.Types = append(p.Types, capacity.Type{Devices: t.Devices, Most: t.Most, Idle: 1})
	}
	terms := make([]capacity.Terms, len(jobs))
	for i, s := range jobs {
		terms[i] = w.terms(s, prices)
	}
	if !w.o.Printed {
		capacity.PriceIdle(p.Types, prices, terms)
	}
	for _, t := range terms {
		p.Jobs = append(p.Jobs, t.Job(p.Types))
	}
	return p
}

// terms are a job's, as it is now.
func (w *world) terms(s *state, prices []float64) capacity.Terms {
	t := capacity.Terms{
		Deadline: s.Deadline - w.now, Weight: s.Weight * w.o.Urgency, Prices: prices, Horizon: w.o.Horizon,
		Times: make([][]float64, len(s.Times)), Repaid: !w.o.Printed,
	}
	t.Postponed = capacity.PostponedWeight * t.Weight
	for v, times := range s.Times {
		for g, whole := range times {
			left := s.left * whole
			if !math.IsInf(left, 1) {
				t.Longest = max(t.Longest, left+w.o.Start)
			}
			if s.place.devices != g+1 || s.place.typ != v {
				left += w.o.Start
			} else {
				left += s.pause
			}
			t.Times[v] = append(t.Times[v], left)
		}
	}
	return t
}

// move puts the next plan into force. A node of the same type goes on as that with which it has the most jobs in common.
func (w *world) move(next capacity.Plan) {
	w.nodes = next
	numbers := w.number(next)
	was := make([]place, len(w.open))
	for i, s := range w.open {
		was[i], s.place = s.place, place{}
	}
	for n, node := range next {
		for _, share := range node.Shares {
			s := w.open[share.Job]
			s.place = place{node: numbers[n], typ: node.Type, devices: share.Devices}
			if s.place != was[share.Job] {
				s.pause = w.o.Start
			}
			if !s.started {
				s.started, s.outcome.Start = true, w.now
			}
			if types := s.outcome.Types; len(types) == 0 || types[len(types)-1] != node.Type {
				s.outcome.Types = append(types, node.Type)
			}
		}
	}
}

// number names the nodes of a plan: the same name as before for a node that keeps jobs, a new one for others.
func (w *world) number(next capacity.Plan) []int {
	type pair struct{ node, was, common int }
	var pairs []pair
	highest := 0
	for _, s := range w.open {
		highest = max(highest, s.place.node)
	}
	for n, node := range next {
		common := map[int]int{}
		for _, share := range node.Shares {
			if p := w.open[share.Job].place; p.devices > 0 && p.typ == node.Type {
				common[p.node]++
			}
		}
		for was, c := range common {
			pairs = append(pairs, pair{n, was, c})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.common, a.common), cmp.Compare(a.node, b.node), cmp.Compare(a.was, b.was))
	})
	names, taken := make([]int, len(next)), map[int]bool{}
	for _, p := range pairs {
		if names[p.node] == 0 && !taken[p.was] {
			names[p.node], taken[p.was] = p.was, true
		}
	}
	for n := range names {
		if names[n] == 0 {
			highest++
			names[n] = highest
		}
	}
	return names
}

// remaining is how long a job that runs still takes where it is.
func (s *state) remaining() float64 {
	return s.pause + s.left*s.Times[s.place.typ][s.place.devices-1]
}

// next is when it is decided again: at an arrival, an end, or after the horizon.
func (w *world) next() float64 {
	at := math.Inf(1)
	if len(w.open) > 0 {
		at = w.now + w.o.Horizon
	}
	if len(w.coming) > 0 {
		at = min(at, w.coming[0].Submit)
	}
	for _, s := range w.open {
		if s.place.devices > 0 {
			at = min(at, w.now+s.remaining())
		}
	}
	return at
}

// endSlack is how little may be left of a job that has ended: what rounding leaves.
const endSlack = 1e-9

// advance lets the nodes run until then, and pays for them.
func (w *world) advance(to float64) {
	span := to - w.now
	phase := Phase{From: w.now, To: to, Nodes: make([]int, len(w.c.Types))}
	for _, n := range w.nodes {
		w.out.NodeHours[n.Type] += span
		w.out.Cost += span * w.c.Types[n.Type].Price
		phase.Nodes[n.Type]++
	}
	if last := len(w.out.Phases) - 1; last >= 0 && slices.Equal(w.out.Phases[last].Nodes, phase.Nodes) {
		w.out.Phases[last].To = to
	} else if span > 0 {
		w.out.Phases = append(w.out.Phases, phase)
	}
	w.now = to
	w.open = slices.DeleteFunc(w.open, func(s *state) bool {
		if s.place.devices == 0 {
			return false
		}
		t := w.c.Types[s.place.typ]
		pay := span * t.Price * float64(s.place.devices) / float64(t.Devices)
		s.outcome.Cost += pay
		w.out.Shares += pay
		left := s.remaining() - span
		paused := min(s.pause, span)
		s.pause -= paused
		s.left = max(0, s.left-(span-paused)/s.Times[s.place.typ][s.place.devices-1])
		if left > endSlack {
			return false
		}
		s.outcome.End = to
		return true
	})
}

// finish adds up what became of the jobs.
func (w *world) finish() {
	for _, s := range w.all {
		j := s.outcome
		if j.Late = max(0, j.End-j.Deadline); j.Late > endSlack {
			w.out.LateJobs++
			w.out.LateHours += j.Late
			w.out.LateCost += j.Late * s.Weight
		}
		w.out.End = max(w.out.End, j.End)
		w.out.Jobs = append(w.out.Jobs, j)
	}
}

// Urgencies are the factors of the weights at which Curve plans.
func Urgencies() []float64 { return []float64{0, 0.03, 0.1, 0.3, 1, 3, 10, 100} }

// Point is a plan at one urgency.
type Point struct {
	Urgency float64
	Outcome Outcome
}

// urgencyNone is so little that lateness decides between equals only.
const urgencyNone = 1e-9

// Curve plans at each of Urgencies: what less lateness costs.
func Curve(c Catalogue, jobs []Job, o Options) ([]Point, error) {
	var out []Point
	for _, u := range Urgencies() {
		o.Urgency = max(u, urgencyNone)
		r, err := Run(c, jobs, o)
		if err != nil {
			return nil, err
		}
		out = append(out, Point{u, r})
	}
	return out, nil
}

package allocator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// A world has devices of one model: the slowest of its workers would set the pace of all.
// So the devices of each model are a pool, a policy is asked about each pool by itself, and
// which job is in which is decided before (assign). See ADR 56.

// pool is the devices of one model.
type pool struct {
	model   string
	in      Input // the policy's question about it
	devices Devices
	jobs    []int // of the whole question, in the order of in.Jobs
	out     Output
	asked   bool // out answers in
}

// pools is a question about several models.
type pools struct {
	p     Policy
	in    Input
	whole Devices
	of    []pool
	jobs  []pooled
	aside map[cluster.DeviceID]bool // devices that no pool may use
	// binding: jobs wait in the pools that the policy has chosen.
	binding bool
}

// pooled is a job of such a question.
type pooled struct {
	home    int   // the pool of the devices that it has, or one of the two below
	at      int   // the pool in which it is asked about, or none
	options []int // the pools in which it could run, the first of them first
	chosen  int   // the pool that the policy has chosen for it (Chooser), or none
	kept    bool  // it keeps devices that are of several models
	// wide jobs are decided about before the pools, as decision says.
	wide     bool
	decision Decision
}

const (
	none    = -1 // it has no devices
	several = -2 // its devices are of several models
)

// rounds is how often pools are asked once more about jobs that found no place in one and
// could start in another.
const rounds = 2

// runModels asks p about each model.
func runModels(p Policy, in Input, models []string) (Output, error) {
	q := &pools{p: p, in: in, whole: NewDevices(in), jobs: make([]pooled, len(in.Jobs)), aside: map[cluster.DeviceID]bool{}}
	memory := modelsMemory(in.Memory)
	for _, m := range models {
		o := pool{model: m, in: in}
		o.in.Nodes, o.in.Memory = cluster.OfModel(in.Nodes, m), memory[m]
		o.devices = NewDevices(Input{Nodes: o.in.Nodes, Between: in.Between})
		q.of = append(q.of, o)
	}
	for i := range q.jobs {
		q.sort(i)
	}
	if err := q.decideWide(); err != nil {
		return Output{}, err
	}
	q.setAside()
	if err := q.choose(); err != nil {
		return Output{}, err
	}
	q.assign()
	for round := 0; ; round++ {
		if err := q.ask(); err != nil {
			return Output{}, err
		}
		if round == rounds || !q.place() {
			return q.answer(), nil
		}
	}
}

// sort finds out where a job is, and where it could be.
func (q *pools) sort(i int) {
	j, s := q.in.Jobs[i], &q.jobs[i]
	s.home, s.at, s.chosen = q.homeOf(j), none, none
	for m, o := range q.of {
		if o.devices.UsableFor(j) >= j.Sizes[0] && (j.Models == nil || slices.ContainsFunc(j.Models, func(x OnModel) bool { return x.Model == o.model })) {
			s.options = append(s.options, m)
		}
	}
	must, stays := q.whole.MustKeep(j), q.whole.Stays(j)
	if s.home >= 0 && stays && !slices.Contains(s.options, s.home) { // a cordoned node keeps it
		s.options = append(s.options, s.home)
	}
	switch {
	case s.home >= 0 && (must || len(s.options) == 0):
		s.options = []int{s.home}
	case s.home == several && (must || len(s.options) == 0 && stays):
		s.kept = true
	}
}

// homeOf is the pool that a job's devices are of.
func (q *pools) homeOf(j JobView) int {
	home := none
	for id, node := range held(j) {
		at := slices.IndexFunc(q.of, func(o pool) bool { there, _, _ := o.devices.find(node, id); return there })
		if home != none && at != none && at != home {
			return several
		}
		home = max(home, at)
	}
	if home == none && j.Workers > 0 {
		return several // all of its devices are gone: it cannot stay
	}
	return home
}

// setAside takes the devices of jobs that keep several models', and those of wide jobs, out of all pools.
func (q *pools) setAside() {
	for i, j := range q.in.Jobs {
		if q.jobs[i].kept {
			for id := range held(j) {
				q.aside[id] = true
			}
		}
	}
	if len(q.aside) == 0 {
		return
	}
	for m := range q.of {
		o := &q.of[m]
		o.in.Nodes = q.left(o.in.Nodes)
		o.devices = NewDevices(Input{Nodes: o.in.Nodes, Between: o.in.Between})
	}
}

// left are nodes without the devices that are set aside.
func (q *pools) left(nodes []cluster.Node) []cluster.Node {
	nodes = slices.Clone(nodes)
	for n := range nodes {
		nodes[n].Devices = slices.Clone(nodes[n].Devices)
		for d := range nodes[n].Devices {
			if x := &nodes[n].Devices[d]; q.aside[x.ID] {
				x.Health = cluster.Unhealthy
			}
		}
	}
	return nodes
}

// choose asks a policy that chooses models by itself in which pools jobs are to be.
func (q *pools) choose() error {
	c, ok := q.p.(Chooser)
	if !ok {
		return nil
	}
	in := q.in
	in.Nodes, in.Jobs, in.Memory = q.left(in.Nodes), nil, nil
	for i, j := range q.in.Jobs {
		if s := q.jobs[i]; len(s.options) > 0 && !s.kept {
			in.Jobs = append(in.Jobs, j)
		}
	}
	var models map[cluster.JobID]string
	if err := guard(q.p, in, func(in Input) { models, q.binding = c.Choose(in) }); err != nil {
		return err
	}
	for i, j := range q.in.Jobs {
		model, named := models[j.ID]
		m := slices.IndexFunc(q.of, func(o pool) bool { return named && o.model == model })
		if s := &q.jobs[i]; slices.Contains(s.options, m) {
			s.chosen = m
		}
	}
	return nil
}

// ask asks the policy about the pools that have changed.
func (q *pools) ask() error {
	for m := range q.of {
		o := &q.of[m]
		if o.asked {
			continue
		}
		o.in.Jobs, o.jobs = nil, nil
		for i, j := range q.in.Jobs {
			if q.jobs[i].at != m {
				continue
			}
			j = j.On(o.model)
			if q.jobs[i].home != m { // here it asks as one that waits does
				j.Workers, j.Present, j.Pinned, j.Staying = 0, cluster.Allocation{}, false, 0
			}
			o.in.Jobs, o.jobs = append(o.in.Jobs, j), append(o.jobs, i)
		}
		out, err := run(q.p, o.in)
		if err != nil {
			return fmt.Errorf("devices of model %q: %w", o.model, err)
		}
		o.out, o.asked = out, true
	}
	return nil
}

// place finds other pools for jobs that wait where they were asked about: one that runs goes
// back to where it runs, others to where devices are idle. It reports whether any has moved.
func (q *pools) place() (moved bool) {
	idle := make([]int, len(q.of))
	for m := range q.of {
		idle[m] = q.of[m].idle()
	}
	for m := range q.of {
		for k, d := range q.of[m].out.Decisions {
			i := q.of[m].jobs[k]
			if d.Workers > 0 || len(q.jobs[i].options) < 2 {
				continue
			}
			to, least := none, q.in.Jobs[i].Sizes[0]
			for _, o := range q.jobs[i].options {
				if q.binding && q.jobs[i].chosen != none && o != q.jobs[i].home {
					continue
				}
				if o != m && (o == q.jobs[i].home || idle[o] >= least) && (to == none || o == q.jobs[i].home) {
					to = o
				}
			}
			if to == none || q.jobs[i].home == m {
				continue
			}
			idle[to] -= least
			q.jobs[i].at, q.of[m].asked, q.of[to].asked, moved = to, false, false, true
		}
	}
	return moved
}

// idle is how many of a pool's devices its answer leaves unused.
func (o *pool) idle() int {
	n := o.devices.Usable()
	for k, d := range o.out.Decisions {
		if j := o.in.Jobs[k]; d.Workers == j.Workers && o.devices.Stays(j) {
			for range o.devices.Held(j) {
				n--
			}
			continue
		}
		n -= d.Workers
	}
	return n
}

// answer is that of all pools together.
func (q *pools) answer() Output {
	out := Output{Decisions: make([]Decision, len(q.in.Jobs))}
	memory, bounded := map[string][]byte{}, true
	for i, j := range q.in.Jobs {
		out.Decisions[i] = Decision{Job: j.ID}
		switch {
		case q.jobs[i].wide:
			out.Decisions[i] = q.wideDecision(i)
		case q.jobs[i].kept:
			out.Decisions[i] = Decision{Job: j.ID, Workers: j.Workers, BatchSize: cmp.Or(j.sameBatch(), j.BatchFor(j.Workers))}
		}
	}
	for m := range q.of {
		o := &q.of[m]
		for k, d := range o.out.Decisions {
			i := o.jobs[k]
			if j := o.in.Jobs[k]; d.Workers == 0 && o.devices.UsableFor(j) < j.Sizes[0] {
				d.Reason = q.crowded(i, m)
			}
			if d.Workers > 0 {
				d.Model = o.model
				if home := q.jobs[i].home; home >= 0 && home != m {
					d.Reason = fmt.Sprintf("on %s instead of %s: %s", o.model, q.of[home].model, d.Reason)
				}
			}
			out.Decisions[i] = d
		}
		if len(o.out.Memory) > 0 {
			memory[o.model] = o.out.Memory
		}
		out.Value += o.out.Value
		out.Bound += o.out.Bound
		bounded = bounded && (o.out.Bound != 0 || len(o.jobs) == 0)
	}
	if !bounded {
		out.Bound = 0
	}
	q.explain(out.Decisions)
	if text, err := json.Marshal(memory); err == nil && len(memory) > 0 && len(text) <= MaxMemoryBytes {
		out.Memory = text
	}
	return out
}

// crowded says why a job waits for whose smallest size a pool has too few devices left.
func (q *pools) crowded(i, m int) string {
	was := "waits"
	if q.in.Jobs[i].Workers > 0 {
		was = "is preempted"
	}
	j, o := q.in.Jobs[i], &q.of[m]
	return fmt.Sprintf("%s: needs at least %d of %s; jobs that have several models at once leave %d", was, j.Sizes[0], modelText(o.model), o.devices.UsableFor(j))
}

// modelsMemory is what each pool's policy remembers; what a question about one model has
// left is of no use here.
func modelsMemory(text []byte) (of map[string][]byte) {
	if json.Unmarshal(text, &of) != nil {
		return nil
	}
	return of
}

// explain says of jobs for which no model has devices enough what would help.
func (q *pools) explain(decisions []Decision) {
	for i, j := range q.in.Jobs {
		switch d := &decisions[i]; {
		case q.jobs[i].at != none || q.jobs[i].kept || q.jobs[i].wide:
		case q.whole.UsableFor(j) < j.Sizes[0]:
			d.Reason = fmt.Sprintf("needs at least %d devices; the nodes that can run it have %d usable", j.Sizes[0], q.whole.UsableFor(j))
		default:
			d.Reason = fmt.Sprintf("needs at least %d devices of one model; there are %s: it would start on several with --mix-models", j.Sizes[0], q.counts(j))
		}
	}
}

// counts says how many devices of each model could be given to a job.
func (q *pools) counts(j JobView) string {
	var out []string
	for _, o := range q.of {
		all := NewDevices(Input{Nodes: cluster.OfModel(q.in.Nodes, o.model)}) // o lacks those that were kept aside
		if n := all.UsableFor(j); n > 0 {
			out = append(out, fmt.Sprintf("%d of %s", n, modelText(o.model)))
		}
	}
	return strings.Join(out, ", ")
}

// modelText is a model for people.
func modelText(model string) string {
	if model == "" {
		return "unknown model"
	}
	return model
}

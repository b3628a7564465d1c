package coordinator

import (
	"cmp"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// takeAnswer takes the answer to a question in, and returns why there is none.
func takeAnswer(in situation, e Decided) (fault string) {
	d, q := in.decisions, in.decisions.asked
	d.asked, d.known = nil, false
	if q == nil || !in.loaded() {
		return ""
	}
	if e.Err != nil {
		d.fault = e.Err.Error()
		d.void = true // ask again when the interval is over, however urgent it is
		return d.fault
	}
	d.fault, d.memory = "", e.Output.Memory
	granted := placeDecisions(in, *q, e.Output.Decisions)
	if !q.Between {
		d.withdrawOthers(granted) // jobs that were not asked for have nothing coming
	}
	d.moves, d.value, d.bound = nil, e.Output.Value, e.Output.Bound
	for _, j := range q.Jobs {
		t, ok := granted[j.ID]
		if before, _ := d.granted(j.ID); !ok || q.Between && before.Workers() > 0 && !t.moves {
			continue
		}
		d.grant(j.ID, t)
		from, why := 0, t.reason
		if now := in.find(j.ID); now != nil {
			from, why = now.has.Workers(), resizeReason(now, t).String()
		}
		if from != t.Workers() {
			d.moves = append(d.moves, record.Move{Job: j.ID, From: from, To: t.Workers(), Why: why})
		}
	}
	return ""
}

// placeDecisions turns the decisions about jobs that still take part into devices. It
// is the only place that knows how.
func placeDecisions(in situation, q allocator.Input, decisions []allocator.Decision) map[cluster.JobID]target {
	asked := map[cluster.JobID]allocator.JobView{}
	for _, j := range q.Jobs {
		asked[j.ID] = j
	}
	var present []cluster.Allocation
	for _, j := range in.jobs() {
		a := j.has
		if t, _ := in.granted(j.ID); q.Between && t.Workers() > 0 || t.moves && t.Workers() == a.Workers() {
			a = t.Allocation // also of one that is on its way, so that its move is not undone
		}
		if a.Workers() > 0 {
			present = append(present, a)
		}
	}
	granted := map[cluster.JobID]target{}
	var want []place.Count
	for _, d := range decisions {
		v, ok := asked[d.Job]
		j := in.find(d.Job)
		if !ok || j == nil {
			continue
		}
		of := about(in, j)
		if !takesPart(of) || d.Workers != 0 && !slices.Contains(j.sizes, d.Workers) {
			continue
		}
		granted[d.Job] = target{Allocation: cluster.Allocation{Job: d.Job}, reason: d.Reason, model: d.Model}
		if d.Workers == 0 && j.has.Workers() == 0 && of.target.Workers() == 0 {
			continue // it waits on: many do
		}
		want = append(want, priced(of, v, place.Count{
			Job: d.Job, Workers: d.Workers, BatchSize: cmp.Or(d.BatchSize, j.Spec.Value.BatchSize.Min),
			Model: d.Model, Excluded: d.Closed(in.live(), in.refusals(j).nodes), Keep: q.Between && v.Workers > 0 || j.state().Pinned,
		}))
	}
	// Who is left out when not everything fits: the least important, then the youngest.
	slices.SortStableFunc(want, func(a, b place.Count) int { return cmp.Compare(asked[b.Job].Priority, asked[a.Job].Priority) })
	r, moved := place.Repair(place.Question{Nodes: in.live(), Current: present, Want: want}, place.Place(in.live(), present, want), in.decisions.mayMigrate(in))
	for _, a := range r.Allocations {
		t := target{Allocation: a, reason: granted[a.Job].reason, model: granted[a.Job].model}
		if old, _ := in.granted(a.Job); old.moves && slices.EqualFunc(old.Placements, a.Placements, samePlacement) {
			t.reason, t.moves = old.reason, true
		}
		granted[a.Job] = t
	}
	for _, m := range moved {
		t := granted[m.Job]
		t.reason, t.moves = movesWhy(m, r), true
		granted[m.Job] = t
		in.decisions.migrated = in.clock
	}
	for _, u := range r.Unplaced {
		granted[u.Job] = target{Allocation: cluster.Allocation{Job: u.Job}, reason: u.Reason}
	}
	return granted
}

// recordDecision writes down what was decided, if it is other than what was decided before.
func recordDecision(in situation) *move {
	d := in.decisions
	if len(d.moves) == 0 || in.clusterBusy() {
		return nil
	}
	moves := d.moves
	d.moves = nil
	if slices.Equal(moves, in.mirror.Decision.Value.Moves) {
		return nil
	}
	return &move{verb: "decision", then: []record.Op{record.Put(record.AllocationKey, record.Decision{
		Policy: in.cfg.Policy, At: in.now, Asked: in.now.Add(d.last.Sub(in.clock)), Value: d.value, Bound: d.bound, Moves: moves,
	})}}
}

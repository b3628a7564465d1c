package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// decided takes the answer in. Whatever has changed since the question is seen
// again when the targets are carried out.
func (c *Coordinator) decided(e Decided) {
	q := c.round.asked
	c.round.asked, c.round.drawn = nil, nil
	if q == nil || c.mirror == nil {
		return
	}
	if e.Err != nil {
		c.round.fault = e.Err.Error()
		c.round.void = true // ask again when the interval is over, however urgent it is
		c.note(Note{Warn: true, Text: "decide: " + c.round.fault})
		return
	}
	c.round.fault = ""
	c.round.memory = e.Output.Memory
	granted := c.place(*q, e.Output.Decisions)
	if !q.Between {
		c.ungrantOthers(granted) // jobs that were not asked for have nothing coming
	}
	c.round.moves = nil
	c.round.value, c.round.bound = e.Output.Value, e.Output.Bound
	for _, j := range q.Jobs {
		t, ok := granted[j.ID]
		if !ok || q.Between && c.targets.of[j.ID].Workers() > 0 {
			continue
		}
		c.grant(j.ID, t)
		if from := c.workers(j.ID); from != t.Workers() {
			why := t.reason
			if f := c.job(j.ID); f != nil {
				why = resizeReason(*f, t)
			}
			c.round.moves = append(c.round.moves, record.Move{Job: j.ID, From: from, To: t.Workers(), Why: why})
		}
	}
}

// place turns the decisions about jobs that still take part into devices. It
// is the only place that knows how.
func (c *Coordinator) place(q allocator.Input, decisions []allocator.Decision) map[cluster.JobID]target {
	asked := map[cluster.JobID]allocator.JobView{}
	for _, j := range q.Jobs {
		asked[j.ID] = j
	}
	var present []cluster.Allocation
	for _, f := range c.jobs() {
		a := f.has
		if t := c.targets.of[f.ID]; q.Between && t.Workers() > 0 {
			a = t.Allocation
		}
		if a.Workers() > 0 {
			present = append(present, a)
		}
	}
	granted := map[cluster.JobID]target{}
	var want []place.Count
	for _, d := range decisions {
		f := c.job(d.Job)
		j, ok := asked[d.Job]
		if !ok || f == nil || !c.asksFor(*f) || d.Workers != 0 && !slices.Contains(f.sizes, d.Workers) {
			continue
		}
		granted[d.Job] = target{Allocation: cluster.Allocation{Job: d.Job}, reason: d.Reason}
		if d.Workers == 0 && f.has.Workers() == 0 && c.targets.of[d.Job].Workers() == 0 {
			continue // it waits on: many do
		}
		want = append(want, place.Count{
			Job: d.Job, Workers: d.Workers, BatchSize: cmp.Or(d.BatchSize, f.Spec.Value.BatchSize.Min),
			Excluded: slices.Sorted(maps.Keys(c.barred(f.JobView))), Keep: q.Between && j.Workers > 0 || f.state().Pinned,
		})
	}
	// Who is left out when not everything fits: the least important, then the youngest.
	slices.SortStableFunc(want, func(a, b place.Count) int { return cmp.Compare(asked[b.Job].Priority, asked[a.Job].Priority) })
	r := place.Place(c.nodes(), present, want)
	for _, a := range r.Allocations {
		granted[a.Job] = target{Allocation: a, reason: granted[a.Job].reason}
	}
	for _, u := range r.Unplaced {
		granted[u.Job] = target{Allocation: cluster.Allocation{Job: u.Job}, reason: u.Reason}
	}
	return granted
}

// recordDecision writes down what was decided, if it is other than what was decided before.
func (c *Coordinator) recordDecision() {
	moves := c.round.moves
	if len(moves) == 0 || c.busy(c.mirror.Job("")) {
		return
	}
	c.round.moves = nil
	if slices.Equal(moves, c.mirror.Decision.Value.Moves) {
		return
	}
	c.send(move{verb: "decision", then: []record.Op{record.Put(record.AllocationKey, record.Decision{
		Policy: c.cfg.Policy, At: c.now, Value: c.round.value, Bound: c.round.bound, Moves: moves,
	})}})
}

// resizeReason is why a decision gives a job what it does: its owner's word where
// the size that it has is no longer one that it may have, for then the policy was
// asked as if the job waited.
func resizeReason(f formed, t target) string {
	if n := f.has.Workers(); n == 0 || slices.Contains(f.sizes, n) || f.Wanted.Value.ScaledBy == "" {
		return t.reason
	}
	bounds := f.Scaled()
	why := fmt.Sprintf("scaled by %s, now %s", f.Wanted.Value.ScaledBy, workersText(bounds.MinWorkers, bounds.MaxWorkers))
	if t.Workers() == 0 && t.reason != "" {
		why += "; " + t.reason
	}
	return why
}

// workersText writes the bounds of a job's worlds.
func workersText(low, high int) string {
	if low == high {
		return count(low, "worker")
	}
	return fmt.Sprintf("%d to %s", low, count(high, "worker"))
}

// resizeWhy says in words what a decision makes of a job.
func resizeWhy(from, to int, reason string) string {
	var s string
	switch {
	case to == 0:
		s = "give up " + count(from, "device")
	case to > from:
		s = fmt.Sprintf("grow from %d to %s", from, count(to, "worker"))
	case to < from:
		s = fmt.Sprintf("shrink from %d to %s", from, count(to, "worker"))
	default:
		s = fmt.Sprintf("move %s to other devices", count(to, "worker"))
	}
	if reason != "" {
		s += ": " + reason
	}
	return s
}

// overtaken is why a halted job starts where it does: not for what it was halted
// for, if a later decision, or what has become of the devices, gives it another world.
func (c *Coordinator) overtaken(f formed, a cluster.Allocation, why string) string {
	h := f.gen.Halt.Value
	if h.To == nil || *h.To == a.Workers() && *h.To != f.world().Size() {
		return why
	}
	before, to := f.world().Allocation(f.ID), a.Workers()
	now := resizeWhy(before.Workers(), to, c.targets.of[f.ID].reason)
	switch same := slices.EqualFunc(before.Placements, a.Placements, samePlacement); {
	case same:
		now = "start again with " + count(to, "worker")
	case *h.To == to:
		return why
	}
	return fmt.Sprintf("%s (halted to %s, which was overtaken)", now, why)
}

// count writes a number of things for people.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

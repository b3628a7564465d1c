package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/promise"
	"github.com/bellows-ml/bellows/record"
)

// promises is what promises are made from now.
func promises(in situation) promise.Cluster {
	c := promise.Cluster{
		Now: in.now, Policy: in.cfg.Policy, Sizes: in.cfg.PromiseSizes, Interval: in.cfg.Interval, LostAfter: in.cfg.Timing.LostAfter,
		Paused: in.paused(), Alive: len(in.live()), PerNode: in.perNode(), Model: in.nodes().promise,
		Devices: promiseDevices(in), Plan: in.mirror.Promised.Value, Jobs: map[cluster.JobID]promise.Job{},
	}
	for _, j := range in.jobs() {
		_, planned := c.Plan.Jobs[j.ID]
		switch {
		case planned && !j.state().Phase.Terminal() && !j.unwanted():
			c.Jobs[j.ID] = promiseJob(about(in, j))
		case !planned && j.state().Pinned && j.state().Phase.Active() && onPromised(in, j):
			c.Held += j.has.Workers()
		}
	}
	return c
}

// promiseJob is the job as promises are made to it.
func promiseJob(in situation) promise.Job {
	v := asked(in)
	if t, ok := in.granted(in.ID); ok && t.Workers() > 0 && t.Workers() != v.Workers && slices.Contains(v.Sizes, t.Workers()) && !v.Pinned {
		v.Workers = t.Workers() // it is about to have them
		v.Booting = v.StartCost(v.Workers)
	}
	v = v.On(in.nodes().promise)
	if v.Workers > 0 && in.roll.AllFinished() {
		v.Work = allocator.Left(0)
	}
	_, usable := devicesFor(in)
	return promise.Job{Spec: in.Spec.Value, View: v, Usable: usable, Measured: foresee(in).Curve != nil, Barred: barred(in, v)}
}

// decideDeadline answers whether a job that is submitted now, by a request of revision mod, can be promised its deadline.
func decideDeadline(in situation, spec record.Submitted, mod int64) promise.Verdict {
	defer in.measures.Unlearn(spec.ID)
	j := in.view.read(&record.JobView{ID: spec.ID, Spec: record.Versioned[record.Submitted]{Value: spec, Mod: mod}})
	c, asks := promises(in), promiseJob(about(in, j))
	if sizes := c.Ladder(spec.Spec); len(sizes) > 0 {
		asks.Ladder = asked(about(in, withSizes(j, sizes))).On(c.Model)
		asks.Ladder.Sizes = sizes
	}
	return promise.Decide(c, asks)
}

// review looks whether all that is promised can still be had as planned, and writes the plan anew where not.
func review(in situation) *move {
	plan := in.mirror.Promised
	if in.cfg.PromiseSizes == nil || len(plan.Value.Jobs) == 0 || in.clusterBusy() || in.writing(record.PromisedKey) || len(in.live()) == 0 {
		return nil
	}
	slot, left := plan.Value.At(in.now)
	this := reviewed{in.view.version, plan.Mod, slot}
	in.wake(in.clock.Add(left))
	if in.decisions.reviewed == this {
		return nil
	}
	r, changed := promise.Review(promises(in))
	if !changed {
		in.decisions.reviewed = this
		return nil
	}
	m := &move{
		verb: "promise", event: r.Event,
		ifs:  []record.Compare{record.Unchanged(record.PromisedKey, plan.Mod)},
		then: []record.Op{record.Put(record.PromisedKey, r.Plan)},
	}
	if r.Event.Kind == record.DeadlineBroken {
		m.note = Note{Warn: true, Job: r.Event.Job, Text: "promised deadline cannot be kept: " + r.Plan.Jobs[r.Event.Job].Broken}
	}
	return m
}

// promiseNodes are the nodes with the devices that promises are planned on: of the model of which the cluster has most.
func promiseNodes(in situation) []cluster.Node {
	if m := in.nodes().promise; m != "" {
		return cluster.OfModel(in.live(), m)
	}
	return in.live()
}

// promiseDevices is how many of these devices may be given to new work.
func promiseDevices(in situation) int {
	if in.nodes().promise == "" {
		return in.nodes().usable
	}
	n := 0
	for _, node := range promiseNodes(in) {
		n += len(node.Usable())
	}
	return n
}

// barred are those of these nodes that cannot run the job.
func barred(in situation, view allocator.JobView) []cluster.NodeID {
	if in.nodes().promise == "" {
		return view.Excluded
	}
	var out []cluster.NodeID
	for _, n := range promiseNodes(in) {
		if slices.Contains(view.Excluded, n.ID) {
			out = append(out, n.ID)
		}
	}
	return out
}

// onPromised reports whether a job has devices that promises are planned on.
func onPromised(in situation, j *job) bool {
	m := in.nodes().promise
	return m == "" || slices.ContainsFunc(j.has.Placements, func(p cluster.Placement) bool {
		return slices.ContainsFunc(in.node(p.Node).Inventory.Value.Devices, func(d cluster.Device) bool {
			return d.ModelName() == m && slices.Contains(p.Devices, d.ID)
		})
	})
}

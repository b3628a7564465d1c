package coordinator

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
	"github.com/bellows-ml/bellows/rendezvous"
)

// startQueued starts a job that waits, once its devices are free. One that was halted for a world of this
// size, whose devices were not free then, starts for the reason that it was halted for.
func startQueued(in situation) *move {
	why := reason.Of(reason.New(reason.StartWith, "n", in.target.Workers())).And(unpreferred(in)...)
	h := in.gen.Halt.Value
	switch so := in.state().Reason; {
	case so.Has(reason.RestartOf):
		why = so
	case h.To != nil && *h.To == in.target.Workers():
		why = h.Why
	}
	return start(in, 0, why)
}

// start sends START of the next generation, if a decision has granted devices
// and all of them are free. If not it answers with what keeps it from starting.
//
// Its N grants and plan, permit, state, old permit and what guard adds make N + 5 operations
// for N nodes; each node that the job leaves adds the deletion of a grant. What
// is more than etcd takes follows: see regrant.
func start(in situation, from int, why reason.Reason) *move {
	return startAfter(in, failuresOf(in.state()), from, why)
}

// startAfter is start where the job has failed so often.
func startAfter(in situation, after failures, from int, why reason.Reason) *move {
	// 1. Form the world on the devices that were granted.
	a, found := startable(in)
	if a == nil || noUsableCheckpoint(in.job) {
		return found
	}
	world, err := form(in, *a)
	if err != nil {
		return blocked(in, reason.New(reason.NoPort, "said", err)).after(found)
	}
	// 2. Explain it, and say where it begins.
	why = startWhy(in, *a, from, after, why)
	s := after.countedIn(remember(in, next(in, cluster.Starting, why)))
	s.Generation, s.Cold, s.Pinned = world.Generation, "", s.Pinned || from > 0 && shouldPin(in)
	plan := record.Plan{World: world, From: from, Why: why, Cold: after.cold, At: in.now}
	if in.Committed.Exists() {
		s.Doubted = s.Doubted || s.Suspect != nil || failedFrom(in, in.Committed.Value) && in.rule(DoubtFailed)
		plan.Resume, plan.Doubted = &in.Committed.Value, s.Doubted
	}
	// 3. Put it all into one transaction, if etcd takes it.
	m := &move{verb: startVerb, job: in.JobView, forms: &world, spends: true, note: phaseNote(in.JobView, s)}
	if after.cold != "" {
		m.forms = &cluster.World{} // it begins with nothing: all that was prepared, and its nonce, is given up first
	}
	m.ifs = append(m.ifs, record.Unchanged(record.CommittedKey(in.ID), in.Committed.Mod))
	for _, member := range in.roll {
		if member.Fenced && !member.Stopped && in.rule(AliveAbsent) {
			m.ifs = append(m.ifs, record.Absent(record.AliveKey(member.Node)))
		}
	}
	if n := len(m.ifs) + addedCompares; n > in.cfg.MaxTxnOps {
		why := reason.New(reason.TooManyCompares, "n", n-addedCompares-1, "compares", n, "most", in.cfg.MaxTxnOps)
		return blocked(in, why).after(found)
	}
	m.then = []record.Op{
		record.Put(record.PlanKey(in.ID, world.Generation), plan),
		record.Put(record.PermitKey(in.ID, world.Generation), record.Permit{At: in.now}),
		record.Put(record.StateKey(in.ID), s),
	}
	if n := (record.Txn{Then: m.then}).Bytes(); n > roomForOps {
		why := reason.New(reason.PlanTooLarge, "n", len(world.Members), "bytes", n, "most", roomForOps)
		return blocked(in, why).after(found)
	}
	for _, member := range world.Members {
		m.claims = append(m.claims, member.Devices...)
	}
	m.then = fit(in, append(m.then, release(in, world)...))
	return m.after(found)
}

// form makes a world of the devices that were granted.
func form(in situation, a cluster.Allocation) (cluster.World, error) {
	request := rendezvous.Request{
		Allocation: a, Generation: in.number() + 1, Nonce: worldNonce(in, a), PerNode: in.Spec.Value.PerNode,
		Previous: in.world().Members, Nodes: meeting(in, a), Taken: takenPorts(in),
	}
	world, err := rendezvous.Form(request)
	if errors.Is(err, rendezvous.ErrNoPort) { // where there are few, one that was ours or could not be had may be free again
		request.Taken = in.sums().ports
		world, err = rendezvous.Form(request)
	}
	return world, err
}

// startWhy is why a generation begins that follows one of size from, where the job has failed so often.
func startWhy(in situation, a cluster.Allocation, from int, after failures, why reason.Reason) reason.Reason {
	if from > 0 {
		why = overtaken(in, a, why)
	}
	if first, failed := firstFailure(in); failed && in.gen.Halt.Value.Save && in.state().Phase == cluster.Halting {
		why = why.And(reason.New(reason.WhileHalting).About(reason.Of(first.said()))) // reported, not charged
	}
	// A lost node's peers fail in their collectives before its lease has run out:
	// the loss is the cause, whatever was seen first.
	if lost := in.roll.Lost(); from > 0 && len(lost) > 0 && !why.Includes(lostWhy(lost)) {
		why = reason.Of(lostWhy(lost)).And(why...)
	}
	if after.cold != "" {
		why = why.And(reason.New(reason.StartedCold))
	}
	if from > 0 && shouldPin(in) {
		why = why.And(reason.New(reason.KeepsSize))
	}
	return why
}

// blocked is the answer of a start that cannot be made yet.
func blocked(in situation, why reason.Clause) *move {
	return &move{job: in.JobView, blocked: reason.Of(why)}
}

// startable returns where the job can start now, nil if it cannot. Devices that
// were granted but have since been lost, cordoned or refused are replaced by spare
// ones; if there are too few, the grant is void and the next decision has to make
// another. What it found out is nil where nothing is granted or nothing has changed.
func startable(in situation) (*cluster.Allocation, *move) {
	t := in.target
	if t.Workers() == 0 {
		return nil, nil
	}
	if t.Workers() <= in.state().OutOfMemory && !slices.Contains(in.sizes, t.Workers()) { // asked before that was known
		return nil, &move{job: in.JobView, grant: &granting{void: true}}
	}
	if in.state().BatchLimit > 0 && t.BatchSize > in.Batch().Max { // likewise
		return nil, &move{job: in.JobView, grant: &granting{void: true}}
	}
	var found *move
	if !sound(in, t) {
		r := place.Place(spare(in), nil, []place.Count{{Job: in.ID, Workers: t.Workers(), BatchSize: t.BatchSize, Model: modelFor(in, t)}})
		if len(r.Allocations) == 0 {
			return nil, &move{job: in.JobView, grant: &granting{void: true}}
		}
		t.Allocation = r.Allocations[0]
		found = &move{job: in.JobView, grant: &granting{to: &t}}
	}
	var awaited []string
	for _, p := range t.Placements {
		for _, d := range p.Devices {
			for _, j := range holders(in, deviceRef{p.Node, d}, in.ID) {
				if !slices.Contains(awaited, string(j)) {
					awaited = append(awaited, string(j))
				}
			}
		}
	}
	if len(awaited) > 0 {
		return nil, blocked(in, reason.New(reason.DevicesInUse, "n", t.Workers(), "jobs", strings.Join(awaited, ", "))).after(found)
	}
	return &t.Allocation, found
}

// sound reports whether every granted device may be given to new work of the job.
func sound(in situation, t target) bool {
	refused := refusedBy(in)
	for _, p := range t.Placements {
		for _, d := range p.Devices {
			if !usable(in, deviceRef{p.Node, d}, refused) {
				return false
			}
		}
	}
	return true
}

// meeting returns the allocation's nodes as a rendezvous sees them.
func meeting(in situation, a cluster.Allocation) []rendezvous.Node {
	var out []rendezvous.Node
	for _, p := range a.Placements {
		if v := in.node(p.Node); v.Alive.Exists() {
			alive := v.Alive.Value
			out = append(out, rendezvous.Node{
				ID: p.Node, AliveRev: v.Alive.Create, Addr: cmp.Or(v.Inventory.Value.Addr, alive.Addr),
				FirstPort: alive.Ports.First, PortCount: alive.Ports.Count,
			})
		}
	}
	return out
}

// takenPorts are the endpoints of live generations, and of the job's own last ones.
func takenPorts(in situation) []cluster.Endpoint {
	out := slices.Clone(in.sums().ports)
	for g := in.number(); g > 0 && g+keptGenerations > in.number(); g-- {
		out = append(out, in.Generation(g).Plan.Value.World.Master)
	}
	return out
}

// started records that the whole gang runs, and what it took to get there.
func started(in situation) *move {
	if in.state().Phase != cluster.Starting || !in.roll.AllStarted() {
		return nil
	}
	s, took := clearSuspect(in, next(in, cluster.Running, in.state().Reason)), account(in)
	s.Doubted = false
	note := phaseNote(in.JobView, s)
	note.Rescale = &took
	return &move{
		verb: "running", job: in.JobView, note: note, event: startedEvent(took, in.ID),
		then: []record.Op{
			record.Put(record.StateKey(in.ID), s),
			record.Put(record.RescaleKey(in.ID, in.number()), took),
		},
	}
}

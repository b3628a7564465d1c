package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/rendezvous"
)

// startWaiting starts a job that waits, once its devices are free.
func (c *Coordinator) startWaiting(f formed) bool {
	why := "start with " + count(c.targets.of[f.ID].Workers(), "worker")
	if so := f.state().Reason; strings.HasPrefix(so, restartAfter) {
		why = so
	}
	return c.start(f, 0, why)
}

// start sends START of the next generation, if a decision has granted devices
// and all of them are free. What keeps it from starting is noted in blocked.
//
// Its N grants and plan, permit, state and old permit make N + 4 operations
// for N nodes; each node that the job leaves adds the deletion of a grant. What
// is more than etcd takes follows: see regrant.
func (c *Coordinator) start(f formed, from int, why string) bool {
	a, ok := c.startable(f)
	if !ok || bereft(f) {
		return false
	}
	request := rendezvous.Request{
		Allocation: a, Generation: f.number() + 1, Nonce: c.nonce(a), PerNode: f.Spec.Value.PerNode, Previous: f.world().Members, Nodes: c.meeting(a), Taken: c.takenPorts(f),
	}
	world, err := rendezvous.Form(request)
	if errors.Is(err, rendezvous.ErrNoPort) { // where there are few, one that was ours or could not be had may be free again
		request.Taken = c.ports()
		world, err = rendezvous.Form(request)
	}
	if err != nil {
		c.blocked[f.ID] = err.Error()
		return false
	}
	if from > 0 {
		why = c.overtaken(f, a, why)
	}
	if first, failed := c.blame(f); failed && f.gen.Halt.Value.Save && f.state().Phase == cluster.Halting {
		why += "; while halting, " + first.text() // reported, not charged
	}
	// A lost node's peers fail in their collectives before its lease has run out:
	// the loss is the cause, whatever was seen first.
	if lost := f.roll.Lost(); from > 0 && len(lost) > 0 && !strings.Contains(why, lostWhy(lost)) {
		why = lostWhy(lost) + "; " + why
	}
	s := c.next(f.JobView, cluster.Starting, why)
	s.Generation = world.Generation
	if from > 0 && c.shouldPin(f) {
		s.Pinned = true
		why += "; the script saved nothing when it was halted, so the job keeps this size until it saves"
		s.Reason = why
	}
	plan := record.Plan{World: world, From: from, Why: why, At: c.now}
	if f.Committed.Exists() {
		s.Doubted = s.Doubted || s.Suspect != nil || c.failedFrom(f, f.Committed.Value) && c.rule(DoubtFailed)
		plan.Resume, plan.Doubted = &f.Committed.Value, s.Doubted
	}
	m := move{verb: "start", job: f.JobView, note: phaseNote(f.JobView, s)}
	m.ifs = append(m.ifs, record.Unchanged(record.CommittedKey(f.ID), f.Committed.Mod))
	for _, member := range f.roll {
		if member.Fenced && !member.Stopped && c.rule(AliveAbsent) {
			m.ifs = append(m.ifs, record.Absent(record.AliveKey(member.Node)))
		}
	}
	if n := len(m.ifs) + leaderAndState; n > c.cfg.MaxTxnOps {
		c.blocked[f.ID] = fmt.Sprintf("%s of its last world are lost and not back: to start without them takes %d compares in one transaction, "+
			"and etcd takes %d: raise --max-txn-ops of etcd and of the coordinator, or bring some of them back",
			count(n-leaderAndState-1, "node"), n, c.cfg.MaxTxnOps)
		return false
	}
	m.then = []record.Op{
		record.Put(record.PlanKey(f.ID, world.Generation), plan),
		record.Put(record.PermitKey(f.ID, world.Generation), record.Permit{At: c.now}),
		record.Put(record.StateKey(f.ID), s),
	}
	if n := (record.Txn{Then: m.then}).Bytes(); n > roomForOps {
		c.blocked[f.ID] = fmt.Sprintf("its plan of %s takes %d bytes in one transaction, at most %d: scale the job to fewer workers",
			count(len(world.Members), "node"), n, roomForOps)
		return false
	}
	for _, member := range world.Members {
		m.claims = append(m.claims, member.Devices...)
	}
	m.then = c.fit(f.ID, append(m.then, c.release(f.JobView, world)...))
	return c.send(m)
}

// startable returns where the job can start now. Devices that were granted but
// have since been lost, cordoned or refused are replaced by spare ones; if there
// are too few, the grant is void and the next decision has to make another.
func (c *Coordinator) startable(f formed) (cluster.Allocation, bool) {
	t, ok := c.targets.of[f.ID]
	if !ok || t.Workers() == 0 {
		return cluster.Allocation{}, false
	}
	if !c.sound(f, t) {
		r := place.Place(c.spare(f), nil, []place.Count{{Job: f.ID, Workers: t.Workers(), BatchSize: t.BatchSize}})
		if len(r.Allocations) == 0 {
			c.ungrant(f.ID)
			c.round.drawn, c.round.void = nil, true
			return cluster.Allocation{}, false
		}
		t.Allocation = r.Allocations[0]
		c.grant(f.ID, t)
	}
	var awaited []string
	for _, p := range t.Placements {
		for _, d := range p.Devices {
			for _, j := range c.holders(slot{p.Node, d}, f.ID) {
				if !slices.Contains(awaited, string(j)) {
					awaited = append(awaited, string(j))
				}
			}
		}
	}
	if len(awaited) > 0 {
		c.blocked[f.ID] = fmt.Sprintf("starts with %s as soon as their devices are let go of by %s",
			count(t.Workers(), "worker"), strings.Join(awaited, ", "))
		return cluster.Allocation{}, false
	}
	return t.Allocation, true
}

// sound reports whether every granted device may be given to new work of the job.
func (c *Coordinator) sound(f formed, t target) bool {
	barred := c.barred(f.JobView)
	for _, p := range t.Placements {
		for _, d := range p.Devices {
			if !c.usable(slot{p.Node, d}, barred) {
				return false
			}
		}
	}
	return true
}

// meeting returns the allocation's nodes as a rendezvous sees them.
func (c *Coordinator) meeting(a cluster.Allocation) []rendezvous.Node {
	var out []rendezvous.Node
	for _, p := range a.Placements {
		if v := c.mirror.Node(p.Node); v.Alive.Exists() {
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
func (c *Coordinator) takenPorts(f formed) []cluster.Endpoint {
	out := slices.Clone(c.ports())
	for g := f.number(); g > 0 && g+keptGenerations > f.number(); g-- {
		out = append(out, f.Generation(g).Plan.Value.World.Master)
	}
	return out
}

// started records that the whole gang runs, and what it took to get there.
func (c *Coordinator) started(f formed) bool {
	if f.state().Phase != cluster.Starting || !f.roll.AllStarted() {
		return false
	}
	s, took := c.acquitted(f, c.next(f.JobView, cluster.Running, f.state().Reason)), c.account(f)
	s.Doubted = false
	note := phaseNote(f.JobView, s)
	note.Rescale = &took
	return c.send(move{
		verb: "running", job: f.JobView, note: note, event: startedEvent(took, f.ID),
		then: []record.Op{
			record.Put(record.StateKey(f.ID), s),
			record.Put(record.RescaleKey(f.ID, f.number()), took),
		},
	})
}

// errNoPlan stands for a record that only a hand can have removed.
var errNoPlan = errors.New("its plan is missing: it cannot be known who takes part")

package coordinator

import (
	"maps"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/rendezvous"
)

// formed is a job with its newest generation, if it has one: what was planned
// and what the members have said.
type formed struct {
	*record.JobView
	gen   *record.GenerationView // never nil
	roll  rendezvous.Roll
	sizes []int              // the world sizes that it may have; not to be changed
	has   cluster.Allocation // what its live world holds

	looked bool   // the rest has been read, too
	fault  string // how its world is broken; empty = it is not
	owed   []slot // devices of its live world that are not granted yet

	asks allocator.JobView // what a decision learns of it while it has no workers; without an identifier: not read off yet

	owner uint32 // whose it is
	ended *kept  // what it adds to those that are kept, if it has ended

	calm  int       // not 0, and equal to the coordinator's: no rule had anything to do, and will not
	again time.Time // before then; zero = for as long as nothing changes
}

// formed reads a job off the records. Those of c.jobs have been read already.
func (c *Coordinator) formed(v *record.JobView) formed {
	f := formed{JobView: v, gen: v.Generations[v.State.Value.Generation]}
	if f.gen == nil {
		f.gen = &c.none
	}
	for _, m := range f.gen.Plan.Value.World.Members {
		f.roll = append(f.roll, c.attendance(f, m))
	}
	if v.Spec.Exists() {
		f.sizes = v.Scaled().WorldSizes()
	}
	if f.state().Phase.Active() {
		f.has = f.world().Allocation(f.ID)
	}
	return f
}

func (c *Coordinator) attendance(f formed, m cluster.Member) rendezvous.Attendance {
	node := c.mirror.Node(m.Node)
	acks := c.acks(f, m.Node)
	a := rendezvous.Attendance{
		Node:     m.Node,
		Started:  acks.Started.Exists(),
		Failed:   acks.Failed.Exists(),
		Stopped:  acks.Stopped.Exists(),
		Finished: acks.Stopped.Value.Finished,
		Held:     acks.Held.Exists(),
		SDK:      acks.Held.Value.SDK,
		Begun:    acks.Held.Value.Begun,
		Lost:     node.Alive.Create != m.AliveRev && !c.alone(m.Node),
	}
	// A fenced node that is alive again has to say itself that nothing is left.
	a.Fenced = f.gen.Fences[m.Node].Exists() && (!node.Alive.Exists() || !c.rule(AliveAbsent))
	return a
}

// acks are what a node has acknowledged of the job's newest generation.
func (c *Coordinator) acks(f formed, n cluster.NodeID) record.Acks {
	v := c.mirror.Node(n)
	if all := v.Acks[record.JobGen{Job: f.ID, Generation: f.number()}]; all != nil && !c.rule(SameTimeline) {
		return *all
	}
	return v.Ack(f.ID, f.number(), f.world().Nonce)
}

// alone reports whether no node but this belongs to the cluster. Such a node does
// not fence itself, for nobody could take its work over: when it comes back in
// another life its workers are still there, and there is nothing to halt.
func (c *Coordinator) alone(n cluster.NodeID) bool {
	for id, v := range c.mirror.Nodes {
		if id != n && v.Belongs() {
			return false // most often the first or the second
		}
	}
	return true
}

func (f formed) state() record.State  { return f.State.Value }
func (f formed) world() cluster.World { return f.gen.Plan.Value.World }

// unwanted reports whether the owner has asked to stop the job.
func (f formed) unwanted() bool { return f.Wanted.Exists() && !f.Wanted.Value.Run }

// number is the job's newest generation.
func (f formed) number() cluster.Generation { return f.state().Generation }

// next is the job's state as it will be in another phase; everything that is not of the phase stays.
func (c *Coordinator) next(v *record.JobView, phase cluster.Phase, reason string) record.State {
	s := v.State.Value
	if s.Phase != phase {
		s.Since = c.now
	}
	if v.State.Value.Phase == cluster.Running && phase != cluster.Running {
		s.Ran = cluster.Duration(v.Ran(c.now))
	}
	s.Phase, s.Reason = phase, c.worded(v.ID, reason)
	s.Next = time.Time{}
	s.Excluded = maps.Clone(s.Excluded)
	if v.State.Value.Phase.Active() && (!phase.Active() || phase == cluster.Starting) { // its generation is over
		trained, service := c.trained(v)
		s.Trained, s.Service = cluster.Duration(trained), cluster.Duration(service)
	}
	return s
}

// worded is a reason as it is recorded, so that what is to be written can be
// compared with what is.
func (c *Coordinator) worded(job cluster.JobID, reason string) string {
	if c.small(job) {
		return record.Cut(reason, record.SmallReason)
	}
	return record.Reason(reason)
}

// trained returns how long the job has had workers, and the device time that is.
func (c *Coordinator) trained(v *record.JobView) (trained, service time.Duration) {
	s := v.State.Value
	trained, service = time.Duration(s.Trained), time.Duration(s.Service)
	if plan := v.Generation(s.Generation).Plan.Value; s.Phase.Active() && !plan.At.IsZero() {
		now := max(0, c.now.Sub(plan.At))
		trained += now
		service += now * time.Duration(plan.World.Size())
	}
	return trained, service
}

// phaseNote is the log line of a change of phase.
func phaseNote(v *record.JobView, s record.State) Note {
	return Note{Job: v.ID, Gen: s.Generation, Phase: s.Phase, Text: s.Reason}
}

// release deletes everything that lets a generation run: its permit, and the job's grants but for those of the world given.
func (c *Coordinator) release(v *record.JobView, w cluster.World) []record.Op {
	var ops []record.Op
	if g := v.State.Value.Generation; v.Generation(g).Permit.Exists() {
		ops = append(ops, record.Delete(record.PermitKey(v.ID, g)))
	}
	return append(ops, c.grantOps(v.ID, w)...)
}

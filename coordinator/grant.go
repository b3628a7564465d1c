package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// grantOps makes a job's grants those of the world, and no others: what the
// world gains comes before what it has left. The zero world has none.
func (c *Coordinator) grantOps(job cluster.JobID, w cluster.World) []record.Op {
	var ops []record.Op
	for _, m := range w.Members {
		if !c.grantedTo(m, job, w.Generation) {
			ops = append(ops, record.Put(record.GrantKey(m.Node, job), record.Grant{Generation: w.Generation, Devices: m.Devices}))
		}
	}
	c.picture()
	for _, n := range c.granted[job] {
		if _, _, stays := w.Member(n); !stays {
			ops = append(ops, record.Delete(record.GrantKey(n, job)))
		}
	}
	return ops
}

// grantedTo reports whether a member of a generation has its grant.
func (c *Coordinator) grantedTo(m cluster.Member, job cluster.JobID, g cluster.Generation) bool {
	have := c.mirror.Node(m.Node).Grants[job]
	return have.Exists() && have.Value.Generation == g
}

// regrant writes what did not fit into the transaction that changed the job's
// world: grants of further members, so that they learn of their generation, even
// of one that is halted again, which they have to acknowledge; and the end of old
// ones. The state record is compared, so none of it lands in a later world.
func (c *Coordinator) regrant(f formed) bool {
	var w cluster.World
	if f.State.Value.Phase.Active() {
		if !f.gen.Plan.Exists() {
			return false // only a hand can have removed it: nothing is let go of
		}
		w = f.gen.Plan.Value.World
	}
	ops := c.grantOps(f.ID, w)
	if len(ops) == 0 || !c.rule(GrantRest) {
		return false
	}
	return c.send(move{verb: "grant", job: f.JobView, then: c.fit(f.ID, ops)})
}

// roomForOps is what the operations of one transaction may take of etcd's bytes; the
// rest is for its compares and an event.
const roomForOps = record.DefaultMaxTxnBytes / 4 * 3

// fit cuts a job's operations to what one transaction takes beside an event. The
// first is always among them.
func (c *Coordinator) fit(job cluster.JobID, ops []record.Op) []record.Op {
	room := c.cfg.MaxTxnOps
	if c.small(job) { // etcd may take fewer than it is said to
		room = min(room, LeastTxnOps)
	}
	if !c.cfg.Quiet {
		room--
	}
	bytes := 0
	for i, op := range ops[:min(len(ops), room)] {
		if bytes += op.Bytes(); bytes > roomForOps && i > 0 {
			return ops[:i]
		}
	}
	return ops[:min(len(ops), room)]
}

// owed lists the devices of a live world that are not granted yet: they are the
// job's from the moment at which its plan was written.
func (c *Coordinator) owed(f formed) []slot {
	if !f.state().Phase.Active() || !c.rule(PlanHolds) {
		return nil
	}
	var out []slot
	for _, m := range f.world().Members {
		if c.grantedTo(m, f.ID, f.number()) {
			continue
		}
		for _, d := range m.Devices {
			out = append(out, slot{m.Node, d})
		}
	}
	return out
}

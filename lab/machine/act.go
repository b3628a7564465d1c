package machine

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/record"
)

const (
	// retryFirst and retryLast bound the pauses between attempts, as in agent/host.
	retryFirst = 100 * time.Millisecond
	retryLast  = 3 * time.Second
	// keptWork is how many steps' results a run keeps.
	keptWork = 16
)

// act begins an action, unless another of its lane is under way.
func (m *Machine) act(a agent.Action) {
	at := lane{a.Of(), a.Lane()}
	if push, ok := a.(agent.Push); ok {
		m.push(m.runs[at.of], push.Wish)
		return
	}
	if m.lanes[at] {
		return
	}
	switch a := a.(type) {
	case agent.Verify:
		m.verify(at, a)
	case agent.StartShim:
		m.start(a)
	case agent.WriteAck:
		m.create(at, a.String(), []record.Op{record.Put(record.AckKey(m.Node, at.of.Job, at.of.Generation, a.Ack), a.Value)}, nil)
	case agent.WriteSaved:
		key := func(step int64) string { return record.SavedKey(m.Node, at.of.Job, at.of.Generation, step) }
		r := m.runs[at.of]
		m.create(at, a.String(), inPlaceOf(record.Put(key(a.Step), a.Saved), key, a.Drop), func(err error) {
			r.digests[a.Step] = agent.Work[record.Saved]{Done: true, Err: err.Error()}
		})
	case agent.WriteOffer:
		key := func(step int64) string { return record.OfferKey(m.Node, at.of.Job, at.of.Generation, step) }
		r := m.runs[at.of]
		m.create(at, a.String(), inPlaceOf(record.Put(key(a.Step), a.Offer), key, a.Drop), func(err error) {
			r.merges[a.Step] = agent.Work[record.Offer]{Done: true, Err: err.Error()}
		})
	case agent.Digest:
		m.digest(at, a)
	case agent.Merge:
		m.merge(at, a)
	case agent.Sweep:
		m.sweep(at, a)
	case agent.RemoveRun:
		m.beside(at, m.takes(a), func() {
			delete(m.dirs, at.of)
			delete(m.runs, at.of)
		})
	case agent.Forget:
		m.write(at, record.Txn{ID: a.String(), If: []record.Compare{m.stillHere()}, Then: []record.Op{
			record.DeletePrefix(record.AckPrefix(m.Node, at.of.Job, at.of.Generation)),
			record.DeletePrefix(record.SavedPrefix(m.Node, at.of.Job, at.of.Generation)),
			record.DeletePrefix(record.OfferPrefix(m.Node, at.of.Job, at.of.Generation)),
		}}, nil)
		delete(m.collected, at.of)
	}
}

// push hands the newest wish to a shim.
func (m *Machine) push(r *run, w agent.Wish) {
	r.pushed = &w
	if w.Kill != "" && !r.wasToldToKill {
		r.toldToKill, r.wasToldToKill = m.Outside.Now(), true
	}
	if w.Retire && !r.wasToldToGo {
		r.toldToGo, r.wasToldToGo = m.Outside.Now(), true
	}
	if w.Prolongs(r.dir.order.Member.AliveRev, m.rev) {
		r.deadline = w.Deadline
	}
	r.dir.shim.wished(w)
}

// verify compares the checkpoint to resume from with what was committed. One that
// this agent has written or read itself it does not read again, unless it is doubted.
func (m *Machine) verify(at lane, a agent.Verify) {
	r := m.runs[at.of]
	if nonce := a.Plan.World.Nonce; r == nil || r.nonce != nonce {
		r = m.newRun(at.of, nonce, agent.Absent)
	}
	c := *a.Plan.Resume
	known := m.proofs[c] && !a.Plan.Doubted
	if a.Whole && known && m.Faults.Unread != nil {
		m.Faults.Unread(at.of, c)
	}
	m.beside(at, m.takes(a), func() {
		r.changed = m.Outside.Now()
		if a.Whole && !known && m.Faults.Damaged != nil && m.Faults.Damaged(c) {
			r.refused = &record.Failed{
				Kind: record.CheckpointDamaged, Rank: -1, At: m.clock(), Reason: fmt.Sprintf("checkpoint of step %d is damaged", c.Step),
			}
			delete(m.proofs, c)
			return
		}
		r.verified = true
		if a.Whole {
			m.proofs[c] = true
		}
	})
}

// start makes the run directory and starts the shim, which goes on without the agent.
func (m *Machine) start(a agent.StartShim) {
	jg, world := a.Of(), a.Plan.World
	member, index, _ := world.Member(m.Node)
	order := Order{
		Spec: a.Spec, World: world, Member: member, Rank0: index == 0, Resume: a.Plan.Resume, Deadline: m.deadline(),
	}
	r := m.newRun(jg, world.Nonce, agent.Live)
	s := &Shim{JobGen: jg, Order: order, machine: m}
	r.dir = &directory{order: order, shim: s}
	r.deadline = order.Deadline
	m.dirs[jg], m.shims = r.dir, append(m.shims, s)
	s.prepare(m.takes(a))
	m.Wake(jg.Job)
}

func (m *Machine) digest(at lane, a agent.Digest) {
	r := m.runs[at.of]
	dropOld(r.digests, a.Step)
	dropOld(r.merges, a.Step)
	r.digests[a.Step] = agent.Work[record.Saved]{}
	m.beside(at, m.takes(a), func() {
		r.changed = m.Outside.Now()
		if m.Faults.Lost != nil {
			if why := m.Faults.Lost(a); why != "" {
				r.digests[a.Step] = m.lostWork(why)
				if r.dir.lost == nil {
					r.dir.lost = map[int64]string{}
				}
				r.dir.lost[a.Step] = why
				return
			}
		}
		r.digests[a.Step] = agent.Work[record.Saved]{Done: true, Value: record.Saved{
			Dir: a.Dir, Samples: a.Samples, Ranks: a.Ranks, At: m.clock(),
		}}
	})
}

func dropOld[T any](works map[int64]agent.Work[T], newest int64) {
	for step, work := range works {
		if len(works) > keptWork && work.Done && step < newest {
			delete(works, step)
		}
	}
}

func (m *Machine) merge(at lane, a agent.Merge) {
	r := m.runs[at.of]
	r.merges[a.Step] = agent.Work[record.Offer]{}
	m.beside(at, m.takes(a), func() {
		r.changed = m.Outside.Now()
		c := record.Checkpoint{
			Generation: a.Generation, Step: a.Step, Samples: a.Parts[0].Samples, Dir: a.Parts[0].Dir,
			ManifestSHA256: strconv.FormatInt(a.Step, 16) + r.nonce, WorldSize: a.WorldSize,
		}
		if m.Faults.Merged != nil {
			m.Faults.Merged(c)
		}
		m.proofs[c] = true
		r.merges[a.Step] = agent.Work[record.Offer]{Done: true, Value: record.Offer{At: m.clock(), Checkpoint: c}}
	})
}

// sweep kills what lives of a generation, its shim included, and looks until nothing does.
func (m *Machine) sweep(at lane, a agent.Sweep) {
	r := m.runs[at.of]
	if nonce := m.Outside.Records().Job(at.of.Job).Generation(at.of.Generation).Plan.Value.World.Nonce; r == nil || r.state == agent.Absent && r.nonce != nonce {
		r = m.newRun(at.of, nonce, agent.Absent)
	}
	takes := m.takes(a)
	var left *Shim
	for _, s := range m.shims {
		if s.JobGen == at.of && (r.dir == nil || r.dir.shim == s) {
			left = s
		}
	}
	if left != nil {
		left.crash()
		takes = max(takes, left.kill9())
	}
	m.beside(at, takes, func() {
		r.changed = m.Outside.Now()
		if left != nil && left.Running() {
			if left.unkillable {
				r.undead, r.doomed = []int{left.PID}, true
			}
			m.lanes[at] = true
			m.beside(at, retryLast, func() {}) // it is planned again then
			return
		}
		r.swept, r.undead, r.doomed = true, nil, false
	})
}

// create writes a record that is written once, the first of ops, and what goes with
// it. One of the same name that is of another generation of the number is replaced.
func (m *Machine) create(at lane, what string, ops []record.Op, refused func(error)) {
	key := ops[0].Key
	t := record.Txn{ID: what, If: []record.Compare{record.Absent(key), m.stillHere()}, Then: ops}
	if nonce, mod := m.said(at.of, key); mod != 0 && nonce != m.nonce(at.of) {
		t.If[0] = record.Unchanged(key, mod)
	}
	m.write(at, t, refused)
}

// nonce is that of a generation's plan.
func (m *Machine) nonce(jg record.JobGen) string {
	return m.Outside.Records().Job(jg.Job).Generation(jg.Generation).Plan.Value.World.Nonce
}

// said returns of which generation of its number a record of this node about jg
// speaks, and when it was written; 0 if it is not there.
func (m *Machine) said(jg record.JobGen, key string) (nonce string, mod int64) {
	own, at := m.own(), record.Locate(key)
	if at.Kind == record.KindSaved {
		v := own.Saved[jg][at.Step]
		return v.Value.Nonce, v.Mod
	}
	if at.Kind == record.KindOffer {
		v := own.Offers[jg][at.Step]
		return v.Value.Nonce, v.Mod
	}
	a := own.Acks[jg]
	if a == nil {
		return "", 0
	}
	switch record.Ack(at.Name) {
	case record.AckStarted:
		return a.Started.Value.Nonce, a.Started.Mod
	case record.AckHeld:
		return a.Held.Value.Nonce, a.Held.Mod
	case record.AckFailed:
		return a.Failed.Value.Nonce, a.Failed.Mod
	case record.AckStopped:
		return a.Stopped.Value.Nonce, a.Stopped.Mod
	case record.AckCleared:
		return a.Cleared.Value.Nonce, a.Cleared.Mod
	}
	return "", 0
}

// stillHere guards writes: they land only in this life of the node.
func (m *Machine) stillHere() record.Compare {
	return record.SameLife(record.AliveKey(m.Node), m.rev)
}

// write commits a transaction on this node's own records, again and again while
// etcd does not answer. It ends when the transaction has been applied or can never
// be: then what to do is decided anew.
func (m *Machine) write(at lane, t record.Txn, refused func(error)) {
	m.lanes[at] = true
	m.attempt(at, t, refused, retryFirst)
}

func (m *Machine) attempt(at lane, t record.Txn, refused func(error), pause time.Duration) {
	out := record.Outcome{Result: record.Unknown}
	if m.Reaches() {
		out = m.Outside.Commit(t)
		if errors.Is(out.Err, record.ErrTooLarge) {
			t = t.Small()
			out = m.Outside.Commit(t)
		}
	}
	rests := time.Duration(0)
	switch {
	case out.Result == record.Unknown:
		starts := m.starts
		m.Outside.At(pause, func() {
			if starts == m.starts {
				m.attempt(at, t, refused, min(2*pause, retryLast))
			}
		})
		return
	case out.Err != nil && refused != nil:
		refused(out.Err)
	case out.Err != nil, out.Result == record.Conflict && m.own().Alive.Create != m.rev:
		rests = retryLast // the same is about to be planned again, in vain
	}
	if r := m.runs[at.of]; r != nil {
		r.changed = m.Outside.Now()
	}
	m.beside(at, rests, func() {})
}

// inPlaceOf writes a step's record and deletes those of older steps.
func inPlaceOf(op record.Op, key func(step int64) string, older []int64) []record.Op {
	ops := []record.Op{op}
	for _, step := range older {
		ops = append(ops, record.Delete(key(step)))
	}
	return ops
}

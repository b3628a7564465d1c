package machine

import (
	"fmt"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/run"
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
	push, pushes := a.(agent.Push)
	if !pushes && m.lanes[at] {
		return
	}
	if m.Faults.Begun != nil {
		m.Faults.Begun(a)
	}
	if pushes {
		m.push(m.runs[at.of], push.Wish)
		return
	}
	switch a := a.(type) {
	case agent.Verify:
		m.verify(at, a)
	case agent.StartShim:
		m.start(a)
	case agent.PrepareShim:
		m.prepareRun(a)
	case agent.BindRun:
		m.bind(at, a)
	case agent.WriteReady:
		m.writeReady(at, a)
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
func (m *Machine) push(r *known, w run.Wish) {
	r.pushed = &w
	if w.Kill != "" && !r.wasToldToKill {
		r.toldToKill, r.wasToldToKill = m.Outside.Now(), true
	}
	if w.Retire && !r.wasToldToGo {
		r.toldToGo, r.wasToldToGo = m.Outside.Now(), true
	}
	if r.binding() == agent.Unbound || w.Prolongs(r.dir.order.Member.AliveRev, m.rev) {
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
		Spec: a.Spec, World: world, Member: member, Rank0: index == 0, Resume: a.Plan.Resume, Deadline: m.deadline(), Planned: true,
	}
	if m.Faults.Shimless != nil {
		if why := m.Faults.Shimless(jg); why != nil {
			m.newRun(jg, world.Nonce, agent.Absent).refused = why
			m.Wake(jg.Job)
			return
		}
	}
	r := m.newRun(jg, world.Nonce, agent.Live)
	s := m.newShim(jg, order)
	r.dir = &directory{order: order, shim: s}
	r.deadline = order.Deadline
	m.dirs[jg] = r.dir
	s.step()
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
		if m.Faults.Unmergeable != nil {
			if why := m.Faults.Unmergeable(a); why != "" {
				r.merges[a.Step] = agent.Work[record.Offer]{Done: true, Err: why}
				return
			}
		}
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
	if nonce := m.nonce(at.of); r == nil || r.state == agent.Absent && r.nonce != nonce {
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
		left.end()
		takes = max(takes, left.sigkill())
	}
	m.beside(at, takes, func() {
		r.changed = m.Outside.Now()
		if left != nil && left.holds() {
			if left.unkillable {
				r.unkillable, r.killPending = []int{left.PID}, true
			}
			m.lanes[at] = true
			m.beside(at, retryLast, func() {}) // it is planned again then
			return
		}
		r.swept, r.unkillable, r.killPending = true, nil, false
	})
}

package machine

import (
	"errors"
	"time"

	"github.com/bellows-ml/bellows/record"
)

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

// nonce is that of a generation's plan, or, without one, of what is said to be prepared of it.
func (m *Machine) nonce(jg record.JobGen) string {
	if plan := m.Outside.Records().Job(jg.Job).Generation(jg.Generation).Plan; plan.Exists() {
		return plan.Value.World.Nonce
	}
	return m.saidReady(jg).Value.Nonce
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

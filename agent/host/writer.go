package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
	"github.com/bellows-ml/bellows/store"
)

// writer writes the node's own records, each once and again and again until etcd
// has answered for good. The loop owns it; each write goes on in its lane.
type writer struct {
	*shared
	session *session
	changed func(record.JobGen) // called by the loop after each write for a generation
	told    uint64              // number of this node's newest event, as far as it came from here
}

// create writes a record that is written once, the first of ops, and what goes
// with it. One of the same name that is of another generation of the number is
// replaced. Whatever comes of it, the loop's records show it before the lane is
// free again, so that nothing is planned from older ones. refused is called by
// the loop if etcd will never take it; nil if there is nothing to do about that.
func (w *writer) create(at loop.Lane, what string, ops []record.Op, refused func(error)) {
	fresh := record.Absent(ops[0].Key)
	if there, exists := w.records.raw[ops[0].Key]; exists && nonceOf(there.Value) != nonceOf(ops[0].Value) {
		fresh = record.Unchanged(ops[0].Key, there.ModRevision)
	}
	w.write(at, record.Txn{ID: what, If: []record.Compare{fresh, w.session.stillHere()}, Then: ops}, refused)
}

// nonceOf returns the nonce of the generation that a record is about. It is "" for a record that cannot be read, which
// is then replaced.
func nonceOf(value []byte) string {
	var said struct {
		Nonce string `json:"nonce"`
	}
	if json.Unmarshal(value, &said) != nil {
		return ""
	}
	return said.Nonce
}

// inPlaceOf writes a step's record and deletes those of older steps.
func inPlaceOf(op record.Op, key func(step int64) string, older []int64) []record.Op {
	ops := []record.Op{op}
	for _, step := range older {
		ops = append(ops, record.Delete(key(step)))
	}
	return ops
}

// replace writes records that change.
func (w *writer) replace(at loop.Lane, what string, ops ...record.Op) {
	w.write(at, record.Txn{ID: what, If: []record.Compare{w.session.stillHere()}, Then: ops}, nil)
}

// forget deletes this node's records of a generation that the leader has collected.
func (w *writer) forget(at loop.Lane) {
	node, job, gen := w.cfg.Node, at.Of.Job, at.Of.Generation
	w.write(at, record.Txn{
		ID: fmt.Sprintf("forget %s/%d", job, gen),
		If: []record.Compare{w.session.stillHere()},
		Then: []record.Op{
			record.DeletePrefix(record.AckPrefix(node, job, gen)),
			record.DeletePrefix(record.SavedPrefix(node, job, gen)),
			record.DeletePrefix(record.OfferPrefix(node, job, gen)),
		},
	}, nil)
}

// ready records how far a preparation is; nil: that there is none any more. What is recorded is of what
// is asked for at that moment: once the leader has taken that back, it knows all that there is.
func (w *writer) ready(at loop.Lane, a agent.WriteReady) {
	key := record.ReadyKey(w.cfg.Node, at.Of.Job)
	as := record.Absent(key)
	if there, exists := w.records.raw[key]; exists {
		as = record.Unchanged(key, there.ModRevision)
	}
	txn := record.Txn{ID: a.String(), If: []record.Compare{as, w.session.stillHere()}, Then: []record.Op{record.Delete(key)}}
	if a.Ready != nil {
		asked := record.NextKey(w.cfg.Node, at.Of.Job)
		txn.If = append(txn.If, record.Unchanged(asked, w.records.raw[asked].ModRevision))
		txn.Then[0] = record.Put(key, *a.Ready)
	}
	w.write(at, txn, nil)
}

// write commits a transaction on this node's own records, again and again while
// etcd does not answer or has no room. It ends when the transaction has been
// applied or can never be: then the records say why, and what to do is decided anew.
func (w *writer) write(at loop.Lane, txn record.Txn, refused func(error)) {
	w.Beside(at, func(ctx context.Context) func() {
		var changes []record.Change
		err := loop.Persist(ctx, w.Log, "write "+txn.ID, func() (bool, error) {
			out := w.store.Commit(ctx, txn)
			if errors.Is(out.Err, record.ErrTooLarge) {
				txn = txn.Small()
				out = w.store.Commit(ctx, txn)
			}
			switch {
			case out.Result == record.Applied:
				changes = applied(txn, out.Revision)
				return false, nil
			case out.Err != nil:
				return out.Result == record.Conflict && !store.Passes(out.Err), out.Err
			}
			var err error
			changes, err = w.reread(ctx, txn)
			return false, err
		})
		if err != nil && refused == nil {
			loop.Rest(ctx, loop.RetryLast) // the same is about to be planned again
		}
		return func() {
			if err != nil && ctx.Err() == nil {
				w.Log.Error().Err(err).Str("txn", txn.ID).Msg("etcd refuses a record; giving it up")
				if refused != nil {
					refused(err)
				}
			}
			for _, c := range changes {
				w.records.change(c)
			}
			w.changed(at.Of)
		}
	})
}

// applied are the changes that a transaction makes at a revision.
func applied(txn record.Txn, revision int64) []record.Change {
	created := map[string]bool{}
	for _, c := range txn.If {
		created[c.Key] = c == record.Absent(c.Key)
	}
	var changes []record.Change
	for _, op := range txn.Then {
		if op.Delete {
			continue // the watch shows which keys that were
		}
		kv := record.KV{Key: op.Key, Value: op.Value, ModRevision: revision, Lease: op.Lease}
		if created[op.Key] {
			kv.CreateRevision = revision
		}
		changes = append(changes, record.Change{KV: kv})
	}
	return changes
}

// reread looks at the records that a transaction compares, after one of them
// was not as expected.
func (w *writer) reread(ctx context.Context, txn record.Txn) ([]record.Change, error) {
	var changes []record.Change
	for _, c := range txn.If {
		kv, exists, err := w.store.Get(ctx, c.Key)
		if err != nil {
			return nil, err
		}
		if exists {
			changes = append(changes, record.Change{KV: kv})
		}
		if c.Key == record.AliveKey(w.cfg.Node) && kv.CreateRevision != c.Revision {
			// This life of the node is over, as its lease is about to find out.
			// Until then the same write would be tried again at once.
			loop.Rest(ctx, loop.RetryLast)
		}
	}
	return changes, nil
}

// tell is the function of that name for this node, which knows its numbers.
func (w *writer) tell(e record.Event) record.Op {
	w.told = max(w.told, w.session.presence.told, record.Newest(w.records.self().Told).Value.Seq) + 1
	return tell(w.cfg.Node, w.told, e)
}

// leave records that this node leaves of its own accord, with the end of its
// alive key. Where that does not succeed the node's lease ends it all the same,
// and it counts as lost.
func (w *writer) leave(ctx context.Context) {
	out := w.store.Commit(ctx, record.Txn{
		ID: "leave", If: []record.Compare{w.session.stillHere()},
		Then: []record.Op{record.Delete(record.AliveKey(w.cfg.Node)), w.tell(record.Event{Kind: record.NodeLeft, Why: reason.Of(reason.New(reason.AgentEnded))})},
	})
	if out.Result != record.Applied {
		w.Log.Warn().Err(out.Err).Msg("cannot tell that the node leaves")
	}
}

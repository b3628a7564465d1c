package store

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bellows-ml/bellows/record"
)

// Commit executes a transaction and never sends it twice. The outcome is Unknown
// if etcd may have executed it without the answer arriving: then read the records
// again. Outcome.Err is the cause; see there for a Conflict with an error.
func (s *Store) Commit(ctx context.Context, t record.Txn) record.Outcome {
	if err := t.Check(s.cfg.MaxTxnOps); err != nil {
		return record.Outcome{ID: t.ID, Result: record.Conflict, Err: err}
	}
	began := time.Now()
	out := s.commit(ctx, t)
	if s.cfg.Observe != nil {
		s.cfg.Observe(Call{Kind: "txn", Result: resultOf(out), Took: time.Since(began)})
	}
	return out
}

func resultOf(out record.Outcome) string {
	switch {
	case out.Result == record.Unknown:
		return "error"
	case out.Result == record.Conflict && out.Err != nil:
		return "refused"
	}
	return out.Result.String()
}

func (s *Store) commit(ctx context.Context, t record.Txn) record.Outcome {
	ctx, cancel := s.WithCallTimeout(ctx)
	defer cancel()
	answer, err := s.client.Txn(ctx).If(compares(t.If)...).Then(operations(t.Then)...).Commit()
	if err != nil {
		out := record.Outcome{ID: t.ID, Result: record.Unknown, Err: fmt.Errorf("commit %q: %w", t.ID, Named(err))}
		if Refused(err) {
			out.Result = record.Conflict
		}
		return out
	}
	if !answer.Succeeded {
		return record.Outcome{ID: t.ID, Result: record.Conflict}
	}
	return record.Outcome{ID: t.ID, Result: record.Applied, Revision: answer.Header.Revision}
}

func compares(in []record.Compare) []clientv3.Cmp {
	out := make([]clientv3.Cmp, len(in))
	for i, c := range in {
		field := clientv3.ModRevision(c.Key)
		if c.Field == record.CreateRevision {
			field = clientv3.CreateRevision(c.Key)
		}
		switch c.Relation {
		case record.Equal:
			out[i] = clientv3.Compare(field, "=", c.Revision)
		case record.AtLeast: // etcd knows greater and less
			out[i] = clientv3.Compare(field, ">", c.Revision-1)
		case record.Before:
			out[i] = clientv3.Compare(field, "<", c.Revision)
		}
	}
	return out
}

func operations(in []record.Op) []clientv3.Op {
	out := make([]clientv3.Op, len(in))
	for i, op := range in {
		switch {
		case op.Prefix:
			out[i] = clientv3.OpDelete(op.Key, clientv3.WithPrefix())
		case op.Delete:
			out[i] = clientv3.OpDelete(op.Key)
		default:
			out[i] = clientv3.OpPut(op.Key, string(op.Value), clientv3.WithLease(clientv3.LeaseID(op.Lease)))
		}
	}
	return out
}

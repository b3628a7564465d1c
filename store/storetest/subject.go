package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// Records is how the suite writes and reads.
type Records interface {
	Commit(ctx context.Context, t record.Txn) record.Outcome
	Range(ctx context.Context, prefixes ...string) ([]record.KV, int64, error)
	// Await returns the changes from a revision on, once there are so many.
	Await(ctx context.Context, count int, from int64, prefixes ...string) ([]record.Change, error)
	Compact(ctx context.Context, revision int64) error
}

// Leases is how the suite handles leases.
type Leases interface {
	Grant(ctx context.Context, ttl time.Duration) (int64, error)
	Renew(ctx context.Context, id int64) (time.Duration, error)
	Revoke(ctx context.Context, id int64) error
	TimeToLive(ctx context.Context, id int64) (time.Duration, error)
}

// Subject is an etcd under test.
type Subject struct {
	Records
	Leases
}

// Memory makes record.Memory a subject. Await lets its time pass.
func Memory(m *record.Memory) Subject { return Subject{memory{m}, memory{m}} }

// patience is how much time passes before Await gives up on a Memory.
const patience = time.Minute

type memory struct{ m *record.Memory }

func (s memory) Commit(_ context.Context, t record.Txn) record.Outcome { return s.m.Commit(t) }

func (s memory) Range(_ context.Context, prefixes ...string) ([]record.KV, int64, error) {
	kvs, revision := s.m.Range(prefixes...)
	return kvs, revision, nil
}

func (s memory) Await(_ context.Context, count int, from int64, prefixes ...string) ([]record.Change, error) {
	for end := s.m.Elapsed() + patience; s.m.Elapsed() < end; s.m.Advance(time.Second / 4) {
		changes, err := s.m.Changes(from, prefixes...)
		if err != nil || len(changes) >= count {
			return changes, err
		}
	}
	return nil, fmt.Errorf("await %d changes: fewer in %v", count, patience)
}

func (s memory) Compact(_ context.Context, revision int64) error { return s.m.Compact(revision) }

func (s memory) Grant(_ context.Context, ttl time.Duration) (int64, error) {
	return s.m.Grant(ttl), nil
}

func (s memory) Renew(_ context.Context, id int64) (time.Duration, error) {
	return s.m.Elapsed(), s.m.KeepAlive(id)
}

func (s memory) Revoke(_ context.Context, id int64) error { return s.m.Revoke(id) }

func (s memory) TimeToLive(_ context.Context, id int64) (time.Duration, error) {
	return s.m.TimeToLive(id)
}

// show writes changes one after the other, revisions counted from base:
// "put a=1 +3/+2" is written at base+3, created at base+2.
func show(changes []record.Change, base int64) string {
	out := make([]string, 0, len(changes))
	for _, c := range changes {
		if c.Deleted {
			out = append(out, fmt.Sprintf("del %s +%d", c.Key, c.ModRevision-base))
		} else {
			out = append(out, fmt.Sprintf("put %s=%s +%d/+%d", c.Key, c.Value, c.ModRevision-base, c.CreateRevision-base))
		}
	}
	return strings.Join(out, ", ")
}

// list is show for a listing.
func list(kvs []record.KV, base int64) string {
	changes := make([]record.Change, 0, len(kvs))
	for _, kv := range kvs {
		changes = append(changes, record.Change{KV: kv})
	}
	return show(changes, base)
}

func put(key, value string) record.Op { return record.Op{Key: key, Value: []byte(value)} }

// apply commits operations that cannot fail and returns their revision.
func apply(t *testing.T, s Subject, ops ...record.Op) int64 {
	t.Helper()
	out := s.Commit(t.Context(), record.Txn{ID: t.Name(), Then: ops})
	if out.Result != record.Applied || out.Err != nil {
		t.Fatalf("commit %+v: %v %v", ops, out.Result, out.Err)
	}
	return out.Revision
}

// now returns the newest revision.
func now(t *testing.T, s Subject) int64 {
	t.Helper()
	_, revision, err := s.Range(t.Context(), "/nothing/")
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

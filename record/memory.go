package record

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Memory is an etcd in memory with etcd's semantics: one revision for each
// transaction that changes something, leases, a history that can be watched and
// compacted. It is deterministic and knows no clock but Advance. One goroutine
// owns it. Values that it hands out are its own: do not write to them.
type Memory struct {
	// MaxTxnOps bounds the compares, and the operations, of one transaction.
	MaxTxnOps int
	// MaxTxnBytes bounds its size, as Txn.Bytes counts it.
	MaxTxnBytes int

	revision  int64
	compacted int64
	keys      []string // sorted
	kvs       map[string]KV
	history   []Change // by revision; of one revision, in the order of its operations

	elapsed time.Duration
	leases  map[int64]memoryLease
	granted int64 // the newest lease
}

// memoryLease is a lease of Memory; its keys are those that name it.
type memoryLease struct {
	id      int64
	ttl     time.Duration
	expires time.Duration // in time elapsed
}

// Reasons why a history cannot be read or cut.
var (
	ErrCompacted = errors.New("revision has been compacted: list again and watch from there")
	ErrFuture    = errors.New("revision lies in the future")
)

// NewMemory makes an empty one, at revision 1 as a fresh etcd is.
func NewMemory() *Memory {
	return &Memory{
		MaxTxnOps:   DefaultMaxTxnOps,
		MaxTxnBytes: DefaultMaxTxnBytes,
		revision:    1,
		kvs:         map[string]KV{},
		leases:      map[int64]memoryLease{},
	}
}

// Revision returns the newest revision.
func (m *Memory) Revision() int64 { return m.revision }

// restoredRevisions is how far the revision of a restored etcd lies beyond that of
// its backup, as in store/server.
const restoredRevisions = 1_000_000_000

// Backup returns a copy.
func (m *Memory) Backup() *Memory {
	c := *m
	c.keys, c.kvs, c.history, c.leases = slices.Clone(m.keys), maps.Clone(m.kvs), slices.Clone(m.history), maps.Clone(m.leases)
	return &c
}

// Restore goes back to a backup, as an etcd does that is restored from one: keys are
// as they were, at a revision far beyond and without a history. Leases begin anew,
// and none has the identifier of one that was granted since.
func (m *Memory) Restore(backup *Memory) {
	c := backup.Backup()
	m.keys, m.kvs, m.leases, m.history = c.keys, c.kvs, c.leases, nil
	m.revision = c.revision + restoredRevisions
	m.compacted = m.revision
	for id, l := range m.leases {
		l.expires = m.elapsed + l.ttl
		m.leases[id] = l
	}
}

// Commit executes a transaction: all of it or nothing, and never Unknown.
func (m *Memory) Commit(t Txn) Outcome {
	if err := t.Check(m.MaxTxnOps); err != nil {
		return Outcome{ID: t.ID, Result: Conflict, Err: err}
	}
	if n := t.Bytes(); n > m.MaxTxnBytes {
		return Outcome{ID: t.ID, Result: Conflict, Err: fmt.Errorf("commit %q with %d bytes, at most %d: %w", t.ID, n, m.MaxTxnBytes, ErrTooLarge)}
	}
	if !t.hold(func(key string) KV { return m.kvs[key] }) {
		return Outcome{ID: t.ID, Result: Conflict}
	}
	for _, op := range t.Then {
		if _, ok := m.leases[op.Lease]; op.Lease != 0 && !op.Delete && !ok {
			return Outcome{ID: t.ID, Result: Conflict, Err: fmt.Errorf("put %s on lease %x: %w", op.Key, op.Lease, ErrLeaseNotFound)}
		}
	}
	next := m.revision + 1
	for _, op := range t.Then {
		switch {
		case op.Prefix:
			first, end := m.span(op.Key)
			for _, key := range slices.Clone(m.keys[first:end]) {
				m.remove(key, next)
			}
		case op.Delete:
			m.remove(op.Key, next)
		default:
			m.put(op, next)
		}
	}
	return Outcome{ID: t.ID, Result: Applied, Revision: m.revision}
}

// put writes a key at a revision and makes that the newest.
func (m *Memory) put(op Op, revision int64) {
	kv, exists := m.kvs[op.Key]
	if !exists {
		i, _ := slices.BinarySearch(m.keys, op.Key)
		m.keys = slices.Insert(m.keys, i, op.Key)
		kv.CreateRevision = revision
	}
	kv = KV{Key: op.Key, Value: op.Value, CreateRevision: kv.CreateRevision, ModRevision: revision, Lease: op.Lease}.clone()
	m.kvs[op.Key] = kv
	m.history = append(m.history, Change{KV: kv})
	m.revision = revision
}

// remove deletes a key at a revision and makes that the newest; an absent key changes nothing.
func (m *Memory) remove(key string, revision int64) {
	i, exists := slices.BinarySearch(m.keys, key)
	if !exists {
		return
	}
	m.keys = slices.Delete(m.keys, i, i+1)
	delete(m.kvs, key)
	m.history = append(m.history, Change{KV: KV{Key: key, ModRevision: revision}, Deleted: true})
	m.revision = revision
}

// span returns where the keys that begin with prefix lie.
func (m *Memory) span(prefix string) (first, end int) {
	first, _ = slices.BinarySearch(m.keys, prefix)
	for end = first; end < len(m.keys) && strings.HasPrefix(m.keys[end], prefix); {
		end++
	}
	return first, end
}

// Get returns a key, and whether it exists.
func (m *Memory) Get(key string) (KV, bool) {
	kv, ok := m.kvs[key]
	return kv, ok
}

// Range lists the keys that begin with any of the prefixes, each once and in
// order, and the revision at which they are so.
func (m *Memory) Range(prefixes ...string) ([]KV, int64) {
	var out []KV
	for i, prefix := range prefixes {
		first, end := m.span(prefix)
		for _, key := range m.keys[first:end] {
			if !hasAnyPrefix(key, prefixes[:i]) {
				out = append(out, m.kvs[key])
			}
		}
	}
	slices.SortFunc(out, func(a, b KV) int { return strings.Compare(a.Key, b.Key) })
	return out, m.revision
}

// Changes returns what happened from a revision on to the keys that begin with
// any of the prefixes, in order. A history cut after that revision is ErrCompacted.
func (m *Memory) Changes(from int64, prefixes ...string) ([]Change, error) {
	if from < m.compacted {
		return nil, fmt.Errorf("changes from revision %d, history begins at %d: %w", from, m.compacted, ErrCompacted)
	}
	i, _ := slices.BinarySearchFunc(m.history, from, func(c Change, rev int64) int {
		if c.ModRevision < rev {
			return -1
		}
		return 1
	})
	var out []Change
	for _, c := range m.history[i:] {
		if hasAnyPrefix(c.Key, prefixes) {
			out = append(out, c)
		}
	}
	return out, nil
}

// Compact forgets the history before a revision; what exists stays.
func (m *Memory) Compact(revision int64) error {
	switch {
	case revision <= m.compacted:
		return fmt.Errorf("compact at revision %d, history begins at %d: %w", revision, m.compacted, ErrCompacted)
	case revision > m.revision:
		return fmt.Errorf("compact at revision %d, the newest is %d: %w", revision, m.revision, ErrFuture)
	}
	m.compacted = revision
	m.history = slices.DeleteFunc(m.history, func(c Change) bool { return c.ModRevision < revision })
	return nil
}

func hasAnyPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

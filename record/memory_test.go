package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// show writes changes as "put a=1@3(created 2)" and "del a@4", one a word group.
func show(changes []record.Change) string {
	var out []string
	for _, c := range changes {
		if c.Deleted {
			out = append(out, fmt.Sprintf("del %s@%d", c.Key, c.ModRevision))
		} else {
			out = append(out, fmt.Sprintf("put %s=%s@%d(%d)", c.Key, c.Value, c.ModRevision, c.CreateRevision))
		}
	}
	return strings.Join(out, " ")
}

func put(key, value string) record.Op { return record.Op{Key: key, Value: []byte(value)} }

func then(ops ...record.Op) record.Txn { return record.Txn{ID: "t", Then: ops} }

func apply(t *testing.T, m *record.Memory, txn record.Txn) int64 {
	t.Helper()
	out := m.Commit(txn)
	if out.Result != record.Applied || out.Err != nil {
		t.Fatalf("commit %+v: %v %v", txn, out.Result, out.Err)
	}
	return out.Revision
}

func TestMemoryTransactionsHaveOneRevision(t *testing.T) {
	m := record.NewMemory()
	apply(t, m, then(put("a", "1"), put("b", "1"), put("d/x", "1"), put("d/y", "1")))
	apply(t, m, then(put("a", "2"), record.Delete("b"), record.DeletePrefix("d/"), record.Delete("absent")))
	apply(t, m, then(put("b", "3")))
	got, err := m.Changes(0, "")
	if err != nil {
		t.Fatal(err)
	}
	const want = "put a=1@2(2) put b=1@2(2) put d/x=1@2(2) put d/y=1@2(2) " +
		"put a=2@3(2) del b@3 del d/x@3 del d/y@3 put b=3@4(4)"
	if show(got) != want {
		t.Errorf("changes:\n got %s\nwant %s", show(got), want)
	}
}

func TestMemoryCompares(t *testing.T) {
	m := record.NewMemory()
	created := apply(t, m, then(put("a", "1")))
	written := apply(t, m, then(put("a", "2")))
	for _, test := range []struct {
		name string
		c    record.Compare
		want record.Result
	}{
		{"absent key is absent", record.Absent("b"), record.Applied},
		{"absent key is unchanged from 0", record.Unchanged("b", 0), record.Applied},
		{"present key is not absent", record.Absent("a"), record.Conflict},
		{"unchanged", record.Unchanged("a", written), record.Applied},
		{"changed since", record.Unchanged("a", created), record.Conflict},
		{"same life", record.SameLife("a", created), record.Applied},
		{"another life", record.SameLife("a", written), record.Conflict},
	} {
		before := m.Revision()
		out := m.Commit(record.Txn{ID: test.name, If: []record.Compare{test.c}, Then: []record.Op{record.Delete("nothing")}})
		if out.ID != test.name || out.Result != test.want || out.Err != nil {
			t.Errorf("%s: %+v, want %v", test.name, out, test.want)
		}
		if m.Revision() != before {
			t.Errorf("%s: a transaction that changes nothing made revision %d", test.name, m.Revision())
		}
	}
	if out := m.Commit(record.Txn{If: []record.Compare{record.Absent("a")}, Then: []record.Op{put("b", "1")}}); out.Revision != 0 {
		t.Errorf("a conflict has a revision: %+v", out)
	}
	if _, exists := m.Get("b"); exists {
		t.Error("a transaction in conflict wrote its key")
	}
}

func TestMemoryRefusesMalformed(t *testing.T) {
	var many []record.Op
	for i := range record.DefaultMaxTxnOps + 1 {
		many = append(many, put(fmt.Sprint("k", i), ""))
	}
	for fault, txn := range map[string]record.Txn{
		"key a is written twice":       then(put("a", "1"), record.Delete("a")),
		"below the deleted prefix d/":  then(put("d/x", "1"), record.DeletePrefix("d/")),
		"at most 128 of each":          then(many...),
		"operation without a key":      then(record.DeletePrefix("")),
		"only a deletion takes a pref": then(record.Op{Key: "a", Prefix: true}),
		"needs a key, and ModRevision": {If: []record.Compare{{Key: "a"}}},
	} {
		m := record.NewMemory()
		out := m.Commit(txn)
		if out.Result != record.Conflict || !errors.Is(out.Err, record.ErrMalformed) || !strings.Contains(out.Err.Error(), fault) {
			t.Errorf("%s: %+v", fault, out)
		}
		if m.Revision() != 1 {
			t.Errorf("%s: something was written", fault)
		}
	}
	m := record.NewMemory()
	m.MaxTxnOps = len(many)
	apply(t, m, then(many...))
}

func TestMemoryRange(t *testing.T) {
	m := record.NewMemory()
	rev := apply(t, m, then(put("n/b", ""), put("n/a", ""), put("n/a/x", ""), put("m", ""), put("n0", "")))
	for want, prefixes := range map[string][]string{
		"":                 {"zzz"},
		"n/a n/a/x n/b":    {"n/"},
		"m n/a n/a/x":      {"n/a", "m"},
		"m n/a n/a/x n/b":  {"n/a", "m", "n/"},
		"m n/a n/a/x n/b ": {"m", "n/", "n/"},
	} {
		kvs, at := m.Range(prefixes...)
		var got []string
		for _, kv := range kvs {
			got = append(got, kv.Key)
		}
		if strings.Join(got, " ") != strings.TrimSpace(want) || at != rev {
			t.Errorf("range %v at %d: %v, want %s at %d", prefixes, at, got, want, rev)
		}
	}
}

func TestMemoryKeepsItsOwnValues(t *testing.T) {
	m := record.NewMemory()
	value := []byte("before")
	apply(t, m, then(record.Op{Key: "a", Value: value}))
	copy(value, "after!")
	if kv, _ := m.Get("a"); string(kv.Value) != "before" {
		t.Errorf("value changed behind its back: %s", kv.Value)
	}
}

func TestMemoryLeases(t *testing.T) {
	m := record.NewMemory()
	short, long := m.Grant(2*time.Second), m.Grant(5*time.Second)
	leased := func(key string, lease int64) record.Op { return record.Op{Key: key, Lease: lease} }
	apply(t, m, then(leased("s1", short), leased("s2", short), leased("moved", short), leased("freed", short), leased("l", long)))
	apply(t, m, then(leased("moved", long), put("freed", "")))
	from := m.Revision() + 1

	m.Advance(time.Second)
	if err := m.KeepAlive(short); err != nil {
		t.Fatal(err)
	}
	if at, ok := m.NextExpiry(); !ok || at != 3*time.Second {
		t.Fatalf("next expiry at %v %v, want 3s", at, ok)
	}
	m.Advance(2*time.Second - 1)
	if left, err := m.TimeToLive(short); err != nil || left != 1 {
		t.Fatalf("short lease has %v left, %v; want 1ns", left, err)
	}
	m.Advance(1)
	m.Advance(time.Hour)
	got, err := m.Changes(from, "")
	if err != nil {
		t.Fatal(err)
	}
	const want = "del s1@4 del s2@4 del l@5 del moved@5"
	if show(got) != want {
		t.Errorf("changes %s, want %s", show(got), want)
	}
	out := m.Commit(then(put("x", ""), leased("y", short)))
	if out.Result != record.Conflict || !errors.Is(out.Err, record.ErrLeaseNotFound) {
		t.Errorf("put on an expired lease: %+v", out)
	}
	if _, exists := m.Get("x"); exists {
		t.Error("half of a refused transaction was applied")
	}
	for what, err := range map[string]error{"keep alive": m.KeepAlive(short), "revoke": m.Revoke(long)} {
		if !errors.Is(err, record.ErrLeaseNotFound) {
			t.Errorf("%s of an expired lease: %v", what, err)
		}
	}
	if _, ok := m.NextExpiry(); ok {
		t.Error("an expiry is due, but there are no leases")
	}
}

func TestMemoryCompaction(t *testing.T) {
	m := record.NewMemory()
	for i := range 4 {
		apply(t, m, then(put("a", fmt.Sprint(i)), put("b", fmt.Sprint(i))))
	}
	if err := m.Compact(4); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Changes(3, ""); !errors.Is(err, record.ErrCompacted) {
		t.Errorf("changes from before the compaction: %v", err)
	}
	got, err := m.Changes(4, "b")
	if err != nil || show(got) != "put b=2@4(2) put b=3@5(2)" {
		t.Errorf("changes from the compaction on: %s, %v", show(got), err)
	}
	if err := m.Compact(4); !errors.Is(err, record.ErrCompacted) {
		t.Errorf("compacted twice: %v", err)
	}
	if err := m.Compact(6); !errors.Is(err, record.ErrFuture) {
		t.Errorf("compacted the future: %v", err)
	}
	if kvs, _ := m.Range(""); len(kvs) != 2 {
		t.Errorf("compaction lost keys: %v", kvs)
	}
}

// A restored etcd has what its backup had, at a revision that was never seen.
func TestMemoryIsRestored(t *testing.T) {
	m := record.NewMemory()
	put := func(key string) {
		if out := m.Commit(record.Txn{Then: []record.Op{record.Put(key, 1)}}); out.Result != record.Applied {
			t.Fatal(out.Err)
		}
	}
	put("/a")
	lease := m.Grant(time.Second)
	backup := m.Backup()
	put("/a")
	put("/b")
	later := m.Grant(time.Second)
	last := m.Revision()
	m.Advance(5 * time.Second) // after which the lease has ended
	m.Restore(backup)
	a, _ := m.Get("/a")
	if _, there := m.Get("/b"); there || a.ModRevision != 2 || m.Revision() <= last {
		t.Errorf("restored: %+v at revision %d, /b %t", a, m.Revision(), there)
	}
	if _, err := m.Changes(last, "/"); !errors.Is(err, record.ErrCompacted) {
		t.Errorf("a watch from before the restore: %v", err)
	}
	if err := m.KeepAlive(lease); err != nil {
		t.Errorf("a lease of the backup: %v", err)
	}
	if m.KeepAlive(later) == nil || m.Grant(time.Second) <= later {
		t.Error("a lease granted after the backup is there, or its identifier comes again")
	}
}

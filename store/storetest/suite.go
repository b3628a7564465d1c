package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// Run verifies that a subject has etcd's semantics.
func Run(t *testing.T, s Subject) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Subject)
	}{
		{"a transaction has one revision", oneRevision},
		{"compares", compares},
		{"nothing of a refused transaction happens", refusals},
		{"listing", listing},
		{"leases", leases},
		{"compaction", compaction},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

func oneRevision(t *testing.T, s Subject) {
	base := now(t, s)
	apply(t, s, put("r/a", "1"), put("r/b", "1"), put("r/d/x", "1"), put("r/d/y", "1"), put("other", "1"))
	apply(t, s, put("r/a", "2"), record.Delete("r/b"), record.DeletePrefix("r/d/"), record.Delete("r/absent"))
	if at := apply(t, s, record.Delete("r/absent")); at != base+2 {
		t.Errorf("a transaction that changes nothing has revision +%d", at-base)
	}
	apply(t, s, put("r/b", "3"))
	got, err := s.Await(t.Context(), 9, base+1, "r/")
	if err != nil {
		t.Fatal(err)
	}
	const want = "put r/a=1 +1/+1, put r/b=1 +1/+1, put r/d/x=1 +1/+1, put r/d/y=1 +1/+1, " +
		"put r/a=2 +2/+1, del r/b +2, del r/d/x +2, del r/d/y +2, put r/b=3 +3/+3"
	if have := show(got, base); have != want {
		t.Errorf("changes:\n got %s\nwant %s", have, want)
	}
}

func compares(t *testing.T, s Subject) {
	created := apply(t, s, put("c/a", "1"))
	written := apply(t, s, put("c/a", "2"))
	for _, c := range []struct {
		name string
		If   []record.Compare
		want record.Result
	}{
		{"nothing", nil, record.Applied},
		{"absent is absent", []record.Compare{record.Absent("c/b")}, record.Applied},
		{"absent was never written", []record.Compare{record.Unchanged("c/b", 0)}, record.Applied},
		{"present is not absent", []record.Compare{record.Absent("c/a")}, record.Conflict},
		{"unchanged", []record.Compare{record.Unchanged("c/a", written)}, record.Applied},
		{"written since", []record.Compare{record.Unchanged("c/a", created)}, record.Conflict},
		{"same life", []record.Compare{record.SameLife("c/a", created)}, record.Applied},
		{"another life", []record.Compare{record.SameLife("c/a", written)}, record.Conflict},
		{"within", record.Within("c/a", written, written+1), record.Applied},
		{"within a wide range", record.Within("c/a", 0, written+100), record.Applied},
		{"before the range", record.Within("c/a", written+1, written+100), record.Conflict},
		{"after the range", record.Within("c/a", 0, written), record.Conflict},
		{"an absent key was written at 0", record.Within("c/b", 0, 1), record.Applied},
		{"an absent key is before every range", record.Within("c/b", 1, written+100), record.Conflict},
		{"one of two", []record.Compare{record.SameLife("c/a", created), record.SameLife("c/b", 1)}, record.Conflict},
	} {
		before := now(t, s)
		out := s.Commit(t.Context(), record.Txn{ID: c.name, If: c.If, Then: []record.Op{put("c/done", c.name)}})
		want := record.Outcome{ID: c.name, Result: c.want}
		if c.want == record.Applied {
			want.Revision = before + 1
		}
		if out != want {
			t.Errorf("%s: %+v, want %+v", c.name, out, want)
		}
	}
}

func refusals(t *testing.T, s Subject) {
	var many []record.Op
	for i := range record.DefaultMaxTxnOps + 1 {
		many = append(many, put(fmt.Sprint("f/", i), ""))
	}
	for _, c := range []struct {
		name string
		ops  []record.Op
		want error
	}{
		{"twice the same key", []record.Op{put("f/a", "1"), record.Delete("f/a")}, record.ErrMalformed},
		{"below a deleted prefix", []record.Op{record.DeletePrefix("f/"), put("f/a", "1")}, record.ErrMalformed},
		{"too many", many, record.ErrMalformed},
		{"too large", []record.Op{put("f/a", strings.Repeat("x", record.DefaultMaxTxnBytes))}, record.ErrTooLarge},
		{"larger than a message", []record.Op{put("f/a", strings.Repeat("x", 2*record.DefaultMaxTxnBytes))}, record.ErrTooLarge},
		{"no such lease", []record.Op{put("f/a", "1"), {Key: "f/b", Lease: 0x5eed}}, record.ErrLeaseNotFound},
	} {
		out := s.Commit(t.Context(), record.Txn{ID: c.name, Then: c.ops})
		if out.ID != c.name || out.Result != record.Conflict || !errors.Is(out.Err, c.want) {
			t.Errorf("%s: %+v, want a conflict: %v", c.name, out, c.want)
		}
	}
	kvs, _, err := s.Range(t.Context(), "f/")
	if err != nil || len(kvs) != 0 {
		t.Errorf("refused transactions left %v, %v", kvs, err)
	}
	out := s.Commit(t.Context(), record.Txn{
		If: []record.Compare{record.SameLife("f/a", 1)}, Then: []record.Op{{Key: "f/b", Lease: 0x5eed}},
	})
	if out.Result != record.Conflict || out.Err != nil {
		t.Errorf("a compare failed, and the lease of the skipped operation was checked: %+v", out)
	}
}

func listing(t *testing.T, s Subject) {
	base := now(t, s)
	apply(t, s, put("l/b", ""), put("l/a", ""), put("l/a/x", ""), put("k", ""), put("l0", ""))
	at := apply(t, s, put("l/a", "2"))
	for _, c := range []struct {
		prefixes []string
		want     string
	}{
		{[]string{"l/z"}, ""},
		{[]string{"l/"}, "put l/a=2 +2/+1, put l/a/x= +1/+1, put l/b= +1/+1"},
		{[]string{"l/a", "k"}, "put k= +1/+1, put l/a=2 +2/+1, put l/a/x= +1/+1"},
		{[]string{"l/b", "l/a/", "l/a", "l/b"}, "put l/a=2 +2/+1, put l/a/x= +1/+1, put l/b= +1/+1"},
	} {
		kvs, revision, err := s.Range(t.Context(), c.prefixes...)
		if err != nil || revision != at || list(kvs, base) != c.want {
			t.Errorf("range %v at +%d, %v:\n got %s\nwant %s", c.prefixes, revision-base, err, list(kvs, base), c.want)
		}
	}
}

func leases(t *testing.T, s Subject) {
	ctx := t.Context()
	short, err := s.Grant(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	long, err := s.Grant(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leased := func(key string, lease int64) record.Op { return record.Op{Key: key, Lease: lease} }
	base := now(t, s)
	apply(t, s, leased("e/1", short), leased("e/2", short), leased("e/moved", short), leased("e/freed", short), leased("e/long", long))
	apply(t, s, leased("e/moved", long), put("e/freed", ""))
	if _, err = s.Renew(ctx, short); err != nil {
		t.Fatal(err)
	}
	got, err := s.Await(ctx, 2, base+3, "e/")
	if err != nil {
		t.Fatal(err)
	}
	if have := show(got, base); have != "del e/1 +3, del e/2 +3" {
		t.Errorf("after the short lease: %s", have)
	}
	if left, ttlErr := s.TimeToLive(ctx, long); ttlErr != nil || left > time.Hour || left < time.Hour-patience {
		t.Errorf("the long lease has %v left, %v", left, ttlErr)
	}
	if err = s.Revoke(ctx, long); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Await(ctx, 2, base+4, "e/"); err != nil {
		t.Fatal(err)
	}
	if have := show(got, base); have != "del e/long +4, del e/moved +4" {
		t.Errorf("after the long lease: %s", have)
	}
	_, renewed := s.Renew(ctx, short)
	_, asked := s.TimeToLive(ctx, long)
	for what, err := range map[string]error{"renew": renewed, "revoke": s.Revoke(ctx, short), "time to live": asked} {
		if !errors.Is(err, record.ErrLeaseNotFound) {
			t.Errorf("%s of a lease that is gone: %v", what, err)
		}
	}
}

func compaction(t *testing.T, s Subject) {
	base := now(t, s)
	for i := range 4 {
		apply(t, s, put("h/a", fmt.Sprint(i)), put("h/b", fmt.Sprint(i)))
	}
	apply(t, s, record.Delete("h/a"))
	if err := s.Compact(t.Context(), base+3); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Await(t.Context(), 1, base+2, "h/"); !errors.Is(err, record.ErrCompacted) {
		t.Errorf("changes from before the compaction: %v", err)
	}
	got, err := s.Await(t.Context(), 5, base+3, "h/")
	const want = "put h/a=2 +3/+1, put h/b=2 +3/+1, put h/a=3 +4/+1, put h/b=3 +4/+1, del h/a +5"
	if err != nil || show(got, base) != want {
		t.Errorf("changes from the compaction on: %v\n got %s\nwant %s", err, show(got, base), want)
	}
	if err := s.Compact(t.Context(), base+3); !errors.Is(err, record.ErrCompacted) {
		t.Errorf("compacted twice: %v", err)
	}
	if err := s.Compact(t.Context(), base+100); !errors.Is(err, record.ErrFuture) {
		t.Errorf("compacted the future: %v", err)
	}
}

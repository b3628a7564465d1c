package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
	"github.com/bellows-ml/bellows/store/server"
)

// callLimit bounds what openHasty's CallTimeout of a second bounds, on a loaded machine.
const callLimit = 10 * time.Second

// unanswered requires that calls to an etcd that does not answer end in time with the right outcome.
func unanswered(t *testing.T, s *store.Store, lease int64) {
	t.Helper()
	began := time.Now()
	out := s.Commit(t.Context(), record.Txn{ID: "lost", Then: []record.Op{etcdtest.Put("lost", "")}})
	if out.Result != record.Unknown || out.Err == nil || out.ID != "lost" {
		t.Errorf("commit: %+v, want unknown and why", out)
	}
	if _, err := s.Renew(t.Context(), lease); err == nil || errors.Is(err, record.ErrLeaseNotFound) {
		t.Errorf("renew: %v, want an error that says nothing about the lease", err)
	}
	if _, _, err := s.Range(t.Context(), ""); err == nil {
		t.Error("a listing without etcd")
	}
	if took := time.Since(began); took > 3*callLimit {
		t.Errorf("three calls took %v", took)
	}
}

func TestEtcdStopsAndComesBack(t *testing.T) {
	t.Parallel()
	cfg := etcdtest.Config(t.TempDir())
	etcd := etcdtest.Start(t, cfg)
	s, steady := etcdtest.OpenHasty(t, etcd.Endpoint()), etcdtest.Open(t, etcd.Endpoint())
	lease, err := steady.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first := etcdtest.Commit(t, steady, etcdtest.Put("w/a", "before"))
	w := s.Watch(t.Context(), first, "w/", "v/")
	collect(t, w, first)
	second := etcdtest.Commit(t, steady, etcdtest.Put("v/a", "seen, or only after the restart"))
	etcdtest.Stop(t, etcd)
	unanswered(t, s, lease)

	cfg.Client = etcd.Endpoint()
	etcdtest.Start(t, cfg)
	third := untilApplied(t, s, etcdtest.Put("w/a", "after"))
	if changes := collect(t, w, third); len(changes) < 2 || changes[0].ModRevision != second || changes[len(changes)-1].ModRevision != third {
		t.Errorf("across the restart: %+v, want revisions %d to %d", changes, second, third)
	}
	closeWatch(t, w)
	untilApplied(t, steady, etcdtest.Put("connected", "again"))
	if _, err := steady.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

// untilApplied repeats a write until etcd takes it: the client may still be waiting to connect again.
func untilApplied(t *testing.T, s *store.Store, op record.Op) int64 {
	t.Helper()
	for deadline := time.Now().Add(etcdtest.Soon); time.Now().Before(deadline); {
		if out := s.Commit(t.Context(), record.Txn{Then: []record.Op{op}}); out.Result == record.Applied {
			return out.Revision
		}
	}
	t.Fatalf("etcd took no write for %v", etcdtest.Soon)
	return 0
}

// An etcd that hangs closes no connection: the watch must detect that, and continue where it was.
func TestEtcdHangs(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Endpoint(t)
	p := etcdtest.StartProxy(t, endpoint)
	log, lines := etcdtest.NewLog()
	s := etcdtest.OpenWith(t, store.Config{
		Endpoints: []string{p.Endpoint()}, DialTimeout: etcdtest.Soon, CallTimeout: time.Second, StallAfter: 500 * time.Millisecond, Log: log,
	})
	other := etcdtest.Open(t, endpoint)
	lease, err := other.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first := etcdtest.Commit(t, other, etcdtest.Put("w/a", "0"))
	w := s.Watch(t.Context(), first, "w/", "v/")
	collect(t, w, first)

	p.Freeze(true)
	unanswered(t, s, lease)
	last := first
	for i := 1; i <= 10; i++ {
		last = etcdtest.Commit(t, other, etcdtest.Put("w/a", fmt.Sprint(i)), etcdtest.Put("v/a", fmt.Sprint(i)))
	}
	select {
	case b := <-w.C:
		t.Errorf("delivered while frozen: %+v", b)
	default:
	}
	p.Freeze(false)
	if changes := collect(t, w, last); len(changes) != 20 {
		t.Errorf("%d changes after the thaw, want 20 in revisions %d to %d: %+v; the watch logged:\n%s", len(changes), first+1, last, changes, lines)
	}
	closeWatch(t, w)
	if text := lines.String(); text == "" {
		t.Error("the watch was not opened again: it waited for the thaw")
	}
}

// An etcd out of space refuses writes and accepts deletions, so that a permit can still be withdrawn.
func TestEtcdOutOfSpace(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, etcdtest.Config(t.TempDir()))
	s := etcdtest.Open(t, etcd.Endpoint())
	admin := etcdtest.Client(t, etcd.Endpoint())
	at := etcdtest.Commit(t, s, etcdtest.Put("permit", ""))
	alarm := pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(admin.ActiveConnection()).Alarm(t.Context(), &alarm); err != nil {
		t.Fatal(err)
	}
	out := s.Commit(t.Context(), record.Txn{Then: []record.Op{etcdtest.Put("state", "")}})
	if out.Result != record.Conflict || !errors.Is(out.Err, store.ErrNoSpace) {
		t.Errorf("a write: %+v, want a conflict: %v", out, store.ErrNoSpace)
	}
	out = s.Commit(t.Context(), record.Txn{If: []record.Compare{record.Unchanged("permit", at)}, Then: []record.Op{record.Delete("permit")}})
	if out.Result != record.Applied {
		t.Errorf("a deletion: %+v", out)
	}
}

// An operator frees space while etcd runs: a coordinator that ended because of it
// would end its own etcd too, and make that impossible.
func TestCandidatesOutliveEtcdOutOfSpace(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, etcdtest.Config(t.TempDir()))
	s := etcdtest.Open(t, etcd.Endpoint())
	if _, err := s.EnsureMeta(t.Context(), "lab"); err != nil {
		t.Fatal(err)
	}
	admin := etcdtest.Client(t, etcd.Endpoint())
	alarm := pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(admin.ActiveConnection()).Alarm(t.Context(), &alarm); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureMeta(t.Context(), "lab"); err != nil {
		t.Errorf("a coordinator that starts: %v", err)
	}
	log, lines := etcdtest.NewLog()
	patient := etcdtest.OpenWith(t, store.Config{Endpoints: []string{etcd.Endpoint()}, Log: log})
	leads := make(chan error, 1)
	go func() {
		_, err := patient.Campaign(t.Context(), record.Leader{Node: "n1"})
		leads <- err
	}()
	lines.Await(t, store.ErrNoSpace.Error())
	if err := server.NewAdmin(s).Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-leads; err != nil {
		t.Errorf("once there is space again: %v", err)
	}
}

// A lease counts from the sending of the renewal, not from the answer: etcd may have
// renewed it at any time in between. The frozen proxy may hold other bytes of the
// connection, sent before the renewal; but not in every round.
func TestRenewalsCountFromTheirSending(t *testing.T) {
	t.Parallel()
	p := etcdtest.StartProxy(t, etcdtest.Endpoint(t))
	s := etcdtest.OpenWith(t, store.Config{Endpoints: []string{p.Endpoint()}, DialTimeout: etcdtest.Soon, CallTimeout: etcdtest.Soon})
	lease, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, renew := range map[string]func() (time.Duration, error){
		"Renew": func() (time.Duration, error) { return s.Renew(t.Context(), lease) },
		"KeepLease": func() (at time.Duration, err error) {
			ctx, cancel := context.WithCancel(t.Context())
			err = s.KeepLease(ctx, lease, etcdtest.Soon, func(sentAt time.Duration) {
				at = sentAt
				cancel()
			})
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return at, err
		},
	} {
		const rounds = 10
		late := 0
		for range rounds {
			p.Freeze(true)
			asked := store.Boottime()
			sent, failed := make(chan time.Duration, 1), make(chan error, 1)
			go func() {
				at, err := renew()
				sent <- at
				failed <- err
			}()
			p.AwaitHeld(t)
			unanswered := store.Boottime()
			p.Freeze(false)
			at, err := <-sent, <-failed
			if err != nil || at < asked {
				t.Fatalf("%s: asked at %v, sent at %v, %v", name, asked, at, err)
			}
			if at > unanswered {
				late++
			}
		}
		if late == rounds {
			t.Errorf("%s counts from the answer", name)
		}
	}
}

func TestKeepLease(t *testing.T) {
	t.Parallel()
	s := etcdtest.Store(t)
	lease, err := s.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const enough = 4
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := store.Boottime()
	renewals := 0
	err = s.KeepLease(ctx, lease, 50*time.Millisecond, func(sentAt time.Duration) {
		if now := store.Boottime(); sentAt < last || sentAt > now {
			t.Errorf("renewal sent at %v, between %v and %v", sentAt, last, now)
		}
		last = store.Boottime()
		if renewals++; renewals == enough {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || renewals != enough {
		t.Errorf("kept until %d renewals: %d, %v", enough, renewals, err)
	}
	renewals = 0
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	err = s.KeepLease(ctx, lease, 50*time.Millisecond, func(time.Duration) {
		switch renewals++; {
		case renewals > enough:
			cancel() // it would be kept for ever
		case renewals == enough:
			if revokeErr := s.Revoke(t.Context(), lease); revokeErr != nil {
				t.Error(revokeErr)
			}
		}
	})
	if !errors.Is(err, record.ErrLeaseNotFound) || renewals != enough {
		t.Errorf("kept until it was revoked: %d renewals, %v", renewals, err)
	}
}

// An etcd that loses its quorum just after Open leaves the check of the cluster
// unanswered, which may not end a coordinator.
func TestEnsureMetaWaitsForEtcd(t *testing.T) {
	t.Parallel()
	p := etcdtest.StartProxy(t, etcdtest.Endpoint(t))
	log, lines := etcdtest.NewLog()
	s := etcdtest.OpenWith(t, store.Config{Endpoints: []string{p.Endpoint()}, DialTimeout: etcdtest.Soon, CallTimeout: 100 * time.Millisecond, Log: log})
	p.Freeze(true)
	ensured := make(chan error, 1)
	go func() {
		_, err := s.EnsureMeta(t.Context(), "lab")
		ensured <- err
	}()
	lines.Await(t, "cannot verify which cluster")
	p.Freeze(false)
	ctx, cancel := etcdtest.After(t, etcdtest.Soon)
	defer cancel()
	select {
	case err := <-ensured:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("still waiting although etcd answers")
	}

	// One that is told to end does.
	p.Freeze(true)
	told, end := context.WithCancel(t.Context())
	end()
	if _, err := s.EnsureMeta(told, "lab"); err == nil {
		t.Error("verified by an etcd that does not answer")
	}
}

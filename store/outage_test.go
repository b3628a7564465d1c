package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
)

// callLimit bounds what openHasty's CallTimeout of a second bounds, on a loaded machine.
const callLimit = 10 * time.Second

// unanswered demands that calls to an etcd that does not answer end in time and say what they know.
func unanswered(t *testing.T, s *store.Store, lease int64) {
	t.Helper()
	began := time.Now()
	out := s.Commit(t.Context(), record.Txn{ID: "lost", Then: []record.Op{put("lost", "")}})
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
	cfg := embedded(t.TempDir())
	server := startServer(t, cfg)
	s := openHasty(t, server.Endpoint())
	lease, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first := commit(t, s, put("w/a", "before"))
	w := s.Watch(t.Context(), first, "w/", "v/")
	collect(t, w, first)
	second := commit(t, s, put("v/a", "seen, or only after the restart"))
	stopServer(t, server)
	unanswered(t, s, lease)

	cfg.Client = server.Endpoint()
	startServer(t, cfg)
	third := untilApplied(t, s, put("w/a", "after"))
	if changes := collect(t, w, third); len(changes) < 2 || changes[0].ModRevision != second || changes[len(changes)-1].ModRevision != third {
		t.Errorf("across the restart: %+v, want revisions %d to %d", changes, second, third)
	}
	closeWatch(t, w)
	if _, err := s.Renew(t.Context(), lease); err != nil {
		t.Error(err)
	}
}

// untilApplied repeats a write until etcd takes it: the client may still be waiting to connect again.
func untilApplied(t *testing.T, s *store.Store, op record.Op) int64 {
	t.Helper()
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); {
		if out := s.Commit(t.Context(), record.Txn{Then: []record.Op{op}}); out.Result == record.Applied {
			return out.Revision
		}
	}
	t.Fatalf("etcd took no write for %v", soon)
	return 0
}

// An etcd that hangs closes nothing: the watch must notice by itself, and go on where it was.
func TestEtcdHangs(t *testing.T) {
	t.Parallel()
	endpoint := startServer(t, embedded(t.TempDir())).Endpoint()
	p := startProxy(t, endpoint)
	log, lines := logger()
	s := openWith(t, store.Config{
		Endpoints: []string{p.endpoint()}, DialTimeout: soon, CallTimeout: time.Second, StallAfter: 500 * time.Millisecond, Log: log,
	})
	other := open(t, endpoint)
	lease, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first := commit(t, other, put("w/a", "0"))
	w := s.Watch(t.Context(), first, "w/", "v/")
	collect(t, w, first)

	p.freeze(true)
	unanswered(t, s, lease)
	last := first
	for i := 1; i <= 10; i++ {
		last = commit(t, other, put("w/a", fmt.Sprint(i)), put("v/a", fmt.Sprint(i)))
	}
	select {
	case b := <-w.C:
		t.Errorf("delivered through ice: %+v", b)
	default:
	}
	p.freeze(false)
	if changes := collect(t, w, last); len(changes) != 20 {
		t.Errorf("%d changes after the thaw, want 20", len(changes))
	}
	closeWatch(t, w)
	if text := lines.String(); text == "" {
		t.Error("the watch was not opened again: it waited for the thaw")
	}
}

// Out of space, etcd refuses what adds and takes what only deletes: that is how a permit can still be withdrawn.
func TestEtcdOutOfSpace(t *testing.T) {
	t.Parallel()
	server := startServer(t, embedded(t.TempDir()))
	s := open(t, server.Endpoint())
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	at := commit(t, s, put("permit", ""))
	alarm := pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(admin.ActiveConnection()).Alarm(t.Context(), &alarm); err != nil {
		t.Fatal(err)
	}
	out := s.Commit(t.Context(), record.Txn{Then: []record.Op{put("state", "")}})
	if out.Result != record.Conflict || !errors.Is(out.Err, store.ErrNoSpace) {
		t.Errorf("a write: %+v, want a conflict: %v", out, store.ErrNoSpace)
	}
	out = s.Commit(t.Context(), record.Txn{If: []record.Compare{record.Unchanged("permit", at)}, Then: []record.Op{record.Delete("permit")}})
	if out.Result != record.Applied {
		t.Errorf("a deletion: %+v", out)
	}
}

// An etcd out of space is mended by people, while it runs: a coordinator that
// ended over it would take the etcd that it runs along, and the remedy with it.
func TestCandidatesOutliveEtcdOutOfSpace(t *testing.T) {
	t.Parallel()
	server := startServer(t, embedded(t.TempDir()))
	s := open(t, server.Endpoint())
	if _, err := s.EnsureMeta(t.Context(), "lab"); err != nil {
		t.Fatal(err)
	}
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	alarm := pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(admin.ActiveConnection()).Alarm(t.Context(), &alarm); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureMeta(t.Context(), "lab"); err != nil {
		t.Errorf("a coordinator that starts: %v", err)
	}
	log, lines := logger()
	patient := openWith(t, store.Config{Endpoints: []string{server.Endpoint()}, Log: log})
	leads := make(chan error, 1)
	go func() {
		_, err := patient.Campaign(t.Context(), record.Leader{Node: "n1"})
		leads <- err
	}()
	awaitLine(t, lines, store.ErrNoSpace.Error())
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-leads; err != nil {
		t.Errorf("once there is space again: %v", err)
	}
}

// What a node may rely on begins when it asked, not when it was answered: etcd may
// have renewed at any time in between. What the ice catches may be another matter of
// the connection's, ahead of the question; not each time.
func TestRenewalsCountFromTheirSending(t *testing.T) {
	t.Parallel()
	p := startProxy(t, startServer(t, embedded(t.TempDir())).Endpoint())
	s := openWith(t, store.Config{Endpoints: []string{p.endpoint()}, DialTimeout: soon, CallTimeout: soon})
	lease, err := s.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, renew := range map[string]func() (time.Duration, error){
		"Renew": func() (time.Duration, error) { return s.Renew(t.Context(), lease) },
		"KeepLease": func() (at time.Duration, err error) {
			ctx, cancel := context.WithCancel(t.Context())
			err = s.KeepLease(ctx, lease, soon, func(sentAt time.Duration) {
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
			p.freeze(true)
			asked := store.Boottime()
			sent, failed := make(chan time.Duration, 1), make(chan error, 1)
			go func() {
				at, err := renew()
				sent <- at
				failed <- err
			}()
			p.holds(t)
			unanswered := store.Boottime()
			p.freeze(false)
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
	s := etcd(t)
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
	err = s.KeepLease(t.Context(), lease, 50*time.Millisecond, func(time.Duration) {
		if renewals++; renewals == enough {
			if revokeErr := s.Revoke(t.Context(), lease); revokeErr != nil {
				t.Error(revokeErr)
			}
		}
	})
	if !errors.Is(err, record.ErrLeaseNotFound) || renewals != enough {
		t.Errorf("kept until it was revoked: %d renewals, %v", renewals, err)
	}
}

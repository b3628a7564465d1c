package serve

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

func TestJobGoesFromAcceptedToAdmitted(t *testing.T) {
	store := newFakeStore()
	a := serve(t, store, "n1", nil)
	req := api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("train")}
	reply, err := a.Submit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	status, err := a.Job(t.Context(), "train")
	if err != nil || status.Phase != cluster.Queued || !strings.Contains(status.WhyPending, "no coordinator leads") {
		t.Errorf("before: %+v, %v", status, err)
	}
	store.put(t, record.Put(record.LeaderPrefix+"1", record.Leader{Node: "boss"}))
	eventually(t, "the leader shows", func() bool {
		status, err = a.Job(t.Context(), reply.ID)
		return err == nil && strings.Contains(status.WhyPending, "not admitted")
	})
	id := cluster.JobID(reply.ID)
	store.admit(t, "ahead-aaaaaa", self(), record.State{Phase: cluster.Queued}) // as old, and first by its name
	store.admit(t, id, self(), record.State{Phase: cluster.Queued, Reason: reason.Said("4 devices are in use")})
	store.put(t, record.Delete(record.RequestKey("n1", req.RequestID)))
	eventually(t, "the job is admitted, and there once", func() bool {
		jobs, listErr := a.Jobs(t.Context(), false)
		return listErr == nil && len(jobs) == 2 && jobs[1].QueuePosition == 2 && jobs[1].WhyPending == "4 devices are in use"
	})
	if status, err = a.Job(t.Context(), reply.ID); err != nil || status.QueuePosition != 2 {
		t.Errorf("by itself its place is %d, %v", status.QueuePosition, err)
	}
}

func TestWatchTellsEachChangeUntilTheEnd(t *testing.T) {
	store := newFakeStore()
	store.admit(t, "train-aaaaaa", self(), record.State{Phase: cluster.Queued})
	a := serve(t, store, "n1", nil)
	next := map[cluster.Phase]cluster.Phase{cluster.Queued: cluster.Starting, cluster.Starting: cluster.Running, cluster.Running: cluster.Succeeded}
	var seen []string
	err := a.Watch(t.Context(), "train", func(s api.JobStatus) error {
		seen = append(seen, string(s.Phase))
		if phase := next[s.Phase]; phase != "" {
			store.put(t, record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: phase}))
		}
		return nil
	})
	if got := strings.Join(seen, " "); err != nil || got != "queued starting running succeeded" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestWatchOfAnAgentThatEndsIsNoEnd(t *testing.T) {
	store := newFakeStore()
	store.admit(t, "train-aaaaaa", self(), record.State{Phase: cluster.Running})
	a := serve(t, store, "n1", nil)
	err := a.Watch(t.Context(), "train", func(api.JobStatus) error { go a.stop(); return nil })
	if !errors.Is(err, api.ErrNoAgent) {
		t.Errorf("got %v, want %v", err, api.ErrNoAgent)
	}
	if _, err := os.Stat(a.socket); !errors.Is(err, os.ErrNotExist) {
		eventually(t, "the socket is gone", func() bool { _, err := os.Stat(a.socket); return errors.Is(err, os.ErrNotExist) })
	}
	if _, err := a.Status(t.Context()); !errors.Is(err, api.ErrNoAgent) {
		t.Errorf("after the end: %v", err)
	}
}

func TestEtcdOutOfReachIsSaid(t *testing.T) {
	store := newFakeStore()
	store.down = true
	a := serve(t, store, "n1", nil)
	if _, err := a.Jobs(t.Context(), false); api.CodeOf(err) != api.Unavailable || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("got %v", err)
	}
	store.mu.Lock()
	store.down = false
	store.mu.Unlock()
	eventually(t, "the server lists again", func() bool { _, err := a.Jobs(t.Context(), false); return err == nil })
}

func TestNamesMeanTheLiveJob(t *testing.T) {
	store := newFakeStore()
	store.admit(t, "train-aaaaaa", self(), record.State{Phase: cluster.Running})
	store.admit(t, "train-bbbbbb", self(), record.State{Phase: cluster.Failed})
	store.admit(t, "train-cccccc", self(), record.State{Phase: cluster.Stopped})
	a := serve(t, store, "n1", nil)
	for ref, want := range map[string]string{"train": "train-aaaaaa", "train-bbbbbb": "train-bbbbbb"} {
		if s, err := a.Job(t.Context(), ref); err != nil || s.ID != want {
			t.Errorf("%s: %s, %v; want %s", ref, s.ID, err, want)
		}
	}
	store.put(t, record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: cluster.Succeeded}))
	eventually(t, "the newest ended one is meant", func() bool {
		s, err := a.Job(t.Context(), "train")
		return err == nil && s.ID == "train-cccccc"
	})
	if list, err := a.Jobs(t.Context(), true); err != nil || len(list) != 3 {
		t.Errorf("all: %d, %v", len(list), err)
	}
	if _, err := a.Job(t.Context(), "../x"); api.CodeOf(err) != api.NotFound {
		t.Errorf("a path for a name: %v", err)
	}
}

func TestFailureAndExitCode(t *testing.T) {
	store := newFakeStore()
	owner := cluster.Owner{UID: 77, User: "owner"}
	at := time.Unix(1e9, 0).UTC()
	failed := record.Failed{Kind: record.WorkerFailed, Reason: "signal 9", Rank: 2, LogTail: []string{"secret"}, At: at}
	store.admit(t, "train-aaaaaa", owner, record.State{Phase: cluster.Failed, Generation: 3, Failure: &failed})
	store.put(t,
		record.Put(record.AckKey("n2", "train-aaaaaa", 3, record.AckFailed), failed),
		record.Put(record.AckKey("n2", "train-aaaaaa", 3, record.AckStopped), record.Stopped{Exits: []record.Exit{{Rank: 2, Code: -1, Signal: 9}}}),
	)
	s, err := serve(t, store, "n1", &owner).Job(t.Context(), "train")
	if err != nil || s.ExitCode == nil || *s.ExitCode != 137 || s.Failure.Node != "n2" || len(s.Failure.LogTail) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = serve(t, store, "n1", &stranger).Job(t.Context(), "train")
	if err != nil || len(s.Failure.LogTail) != 0 || s.Failure.Reason == "" {
		t.Errorf("a stranger sees %+v, %v", s.Failure, err)
	}
}

func TestNodesSayWhoHasWhichDevice(t *testing.T) {
	store := newFakeStore()
	store.admit(t, "train-aaaaaa", self(), record.State{})
	store.plan(t, "train-aaaaaa", 4, "n2", "n1")
	store.put(t,
		record.Put(record.AliveKey("n1"), record.Alive{Addr: "127.0.0.2"}),
		record.Put(record.InventoryKey("n1"), record.Inventory{Devices: []cluster.Device{
			{ID: "D-n1-0", Health: cluster.Healthy}, {ID: "D-n1-1", Health: cluster.Healthy}, {ID: "D-n1-2", Health: cluster.Unhealthy},
		}}),
		record.Put(record.GrantKey("n1", "train-aaaaaa"), record.Grant{Generation: 4, Devices: []cluster.DeviceID{"D-n1-0", "D-n1-1"}}),
		record.Put(record.CordonKey("n2"), record.Cordon{Reason: "maintenance"}),
	)
	nodes, err := serve(t, store, "n1", nil).Nodes(t.Context())
	if err != nil || len(nodes) != 2 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	if n := nodes[0]; !n.Alive || n.Gossip != "alive" || n.Devices[1].Job != "train-aaaaaa" || *n.Devices[1].Rank != 3 || n.Devices[2].Job != "" {
		t.Errorf("n1: %+v", n)
	}
	if n := nodes[1]; n.Alive || n.Cordon != "maintenance" {
		t.Errorf("n2: %+v", n)
	}
}

func TestListenReplacesOnlyLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "s")
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Listen(path); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second agent: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as if it had been killed
	if err = first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path)
	if err != nil {
		t.Fatalf("a leftover is in the way: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil {
		t.Error("a file that is no socket was replaced")
	}
	if _, err := Listen("/tmp/" + strings.Repeat("x", 108)); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a long path: %v", err)
	}
}

// While etcd is silent an answer says for how long: it is the last picture.
func TestAnswersSayThatEtcdIsSilent(t *testing.T) {
	for _, silence := range []time.Duration{0, 7 * time.Second} {
		store := newFakeStore()
		store.silence = silence
		c := serve(t, store, "n1", nil)
		var heard time.Duration
		c.Silence = func(d time.Duration) { heard = d }
		if _, err := c.Jobs(t.Context(), false); err != nil || heard != silence {
			t.Errorf("silent for %v: heard %v, %v", silence, heard, err)
		}
	}
}

package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

var stranger = cluster.Owner{UID: 4242, GID: 4242, User: "stranger"}

func TestSubmitIsWrittenBeforeTheReplyAndOnce(t *testing.T) {
	store := newFakeStore()
	a := serve(t, store, "n1", nil)
	req := api.SubmitRequest{RequestID: api.NewRequestID(), Spec: cluster.Spec{Name: "train", Command: []string{"x"}, Workdir: "/w", CheckpointDir: "/c"}}
	for range 3 {
		reply, err := a.Submit(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if want := "train-" + req.RequestID[:6]; reply.ID != want || reply.Leader != "" {
			t.Errorf("reply %+v, want id %s and no leader", reply, want)
		}
		got := store.requests(t, "n1")
		if len(got) != 1 || got[0].Kind != record.SubmitRequest || string(got[0].Job) != reply.ID {
			t.Fatalf("requests %+v", got)
		}
		if got[0].Owner != self() {
			t.Errorf("owner %+v, want the kernel's word %+v", got[0].Owner, self())
		}
		if got[0].Spec.MaxWorkers != cluster.DefaultMaxWorkers {
			t.Errorf("spec without defaults: %+v", got[0].Spec)
		}
	}
}

func TestSubmitWhoseAnswerWasLostCanBeSentAgain(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a := serve(t, store, "n1", nil)
	lose := func(answers int) {
		store.mu.Lock()
		defer store.mu.Unlock()
		store.unknown = answers
	}
	lose(1) // as with the death of etcd's leader: the agent itself sends it again
	if _, err := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("first")}); err != nil {
		t.Fatal(err)
	}
	req := api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("train")}
	lose(1000)
	if _, err := a.Submit(t.Context(), req); api.CodeOf(err) != api.Unavailable {
		t.Fatalf("got %v, want %s", err, api.Unavailable)
	}
	lose(0)
	if _, err := a.Submit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got := store.requests(t, "n1"); len(got) != 2 {
		t.Errorf("%d requests, want 2", len(got))
	}
}

// The leader carries a request out while the agent waits for its answer, which is
// lost; what others have done since is not undone.
func TestARequestWhoseAnswerWasLostIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a := serve(t, store, "n1", nil)
	store.put(t, record.Put(record.InventoryKey("n2"), record.Inventory{}))
	eventually(t, "the agent knows the node", func() bool {
		nodes, err := a.Nodes(t.Context())
		return err == nil && len(nodes) == 2
	})
	store.mu.Lock()
	store.unknown = 1
	store.mu.Unlock()
	done := make(chan error, 1)
	go func() { _, err := a.Drain(t.Context(), "n2", api.DrainRequest{}); done <- err }()
	var key string
	eventually(t, "the request", func() bool {
		kvs, _, _ := store.Range(t.Context(), record.NodePrefix("n1")+"submit/")
		if len(kvs) == 1 {
			key = kvs[0].Key
		}
		return key != ""
	})
	store.put(t, record.Delete(key), record.Put(record.CordonKey("n2"), record.Cordon{Drain: true}))
	store.put(t, record.Delete(record.CordonKey("n2"))) // an operator undrains it
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if list := store.requests(t, "n1"); len(list) != 0 {
		t.Errorf("carried out, and asked for again: %+v", list)
	}
}

func TestWhatWasAcceptedCanBeAskedForAtOnce(t *testing.T) {
	store := newFakeStore()
	store.slow = 50 * time.Millisecond
	a := serve(t, store, "n1", nil)
	reply, err := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("train")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Job(t.Context(), reply.ID); err != nil {
		t.Errorf("right after it was accepted: %v", err)
	}
}

func TestSubmitRefusals(t *testing.T) {
	store := newFakeStore()
	store.admit(t, "taken-aaaaaa", self(), record.State{Phase: cluster.Running})
	store.admit(t, "ended-aaaaaa", self(), record.State{Phase: cluster.Failed})
	a := serve(t, store, "n1", nil)
	other := serve(t, store, "n1", &stranger)
	bad := goodSpec("train")
	bad.MinWorkers, bad.MaxWorkers, bad.Priority = 8, 4, 999
	for _, c := range []struct {
		name string
		from *agent
		req  api.SubmitRequest
		code api.Code
		want []string
	}{
		{"all faults", a, api.SubmitRequest{RequestID: api.NewRequestID(), Spec: bad}, api.Invalid, []string{"min workers 8", "priority 999"}},
		{"request id", a, api.SubmitRequest{RequestID: "../x", Spec: goodSpec("train")}, api.Invalid, []string{"request id"}},
		{"name in use", a, api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("taken")}, api.InUse, []string{`"taken"`, "taken-aaaaaa", "--name"}},
		{"another's agent", other, api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("train")}, api.Forbidden, []string{"uid 4242"}},
		{"another's request", serve(t, store, "n1", &stranger), api.SubmitRequest{RequestID: strings.Repeat("a", 26), Spec: goodSpec("ended")}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if ownUID() == 0 && c.code == api.Forbidden {
				t.Skip("root's agent runs everybody's jobs")
			}
			_, err := c.from.Submit(t.Context(), c.req)
			if c.code == "" {
				if err == nil {
					t.Fatal("accepted the identifier of another user's job")
				}
				return
			}
			if api.CodeOf(err) != c.code {
				t.Fatalf("got %v, want %s", err, c.code)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
	if _, err := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("ended")}); err != nil {
		t.Errorf("a name whose job has ended: %v", err)
	}
	if n := len(store.requests(t, "n1")); n != 1 {
		t.Errorf("%d requests were written, want the one that was accepted", n)
	}
}

func TestOnlyRootHostsOtherUsers(t *testing.T) {
	own := serve(t, newFakeStore(), "n1", nil).server.submissions
	err := own.mayHost(t.Context(), stranger)
	if root := ownUID() == 0; root != (err == nil) {
		t.Errorf("agent's uid %d: %v", ownUID(), err)
	}
	if err = own.mayHost(t.Context(), self()); err != nil {
		t.Error(err)
	}
	nameless := cluster.Owner{UID: 4_000_000_000, GID: 4_000_000_000, User: userName(4_000_000_000)}
	store := newFakeStore()
	_, err = serve(t, store, "n1", &nameless).Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: goodSpec("nameless")})
	if api.CodeOf(err) != api.Forbidden || ownUID() == 0 && !strings.Contains(err.Error(), "no user name") || len(store.requests(t, "n1")) > 0 {
		t.Errorf("a user without a name: %v", err)
	}
}

func TestStopIsForTheOwnerAndRoot(t *testing.T) {
	store := newFakeStore()
	owner := cluster.Owner{UID: 77, User: "owner"}
	store.admit(t, "mine-aaaaaa", owner, record.State{Phase: cluster.Running})
	store.admit(t, "gone-aaaaaa", owner, record.State{Phase: cluster.Succeeded})
	thief := serve(t, store, "n1", &stranger)
	if _, err := thief.Stop(t.Context(), "mine", api.StopRequest{}); api.CodeOf(err) != api.Forbidden || !strings.Contains(err.Error(), "owner") {
		t.Errorf("a stranger: %v", err)
	}
	if n := len(store.requests(t, "n1")); n != 0 {
		t.Fatalf("a refused stop left %d requests", n)
	}
	for i, who := range []cluster.Owner{owner, {UID: 0, User: "root"}} {
		reply, err := serve(t, store, "n1", &who).Stop(t.Context(), "mine", api.StopRequest{})
		if err != nil || reply.ID != "mine-aaaaaa" || reply.Ended {
			t.Errorf("%s: %+v, %v", who.User, reply, err)
		}
		if n := len(store.requests(t, "n1")); n != i+1 {
			t.Errorf("%s: %d requests", who.User, n)
		}
	}
	reply, err := serve(t, store, "n1", &owner).Stop(t.Context(), "gone", api.StopRequest{})
	if err != nil || !reply.Ended || len(store.requests(t, "n1")) != 2 {
		t.Errorf("a job that has ended: %+v, %v", reply, err)
	}
	if _, err := serve(t, store, "n1", &owner).Stop(t.Context(), "absent", api.StopRequest{}); api.CodeOf(err) != api.NotFound {
		t.Errorf("no such job: %v", err)
	}
}

// A client that lost the answer sends the request again, and it is carried out once.
func TestAStopSentAgainIsOneStop(t *testing.T) {
	store := newFakeStore()
	store.admit(t, "mine-aaaaaa", self(), record.State{Phase: cluster.Running})
	a := serve(t, store, "n1", nil)
	req := api.StopRequest{RequestID: api.NewRequestID(), Now: true}
	store.mu.Lock()
	store.unknown = 1 << 10 // however often it is tried
	store.mu.Unlock()
	if _, err := a.Stop(t.Context(), "mine", req); api.CodeOf(err) != api.Unavailable {
		t.Fatalf("an answer that was lost: %v", err)
	}
	store.mu.Lock()
	store.unknown = 0
	store.mu.Unlock()
	if _, err := a.Stop(t.Context(), "mine", req); err != nil {
		t.Error(err)
	}
	if list := store.requests(t, "n1"); len(list) != 1 || !list[0].Now {
		t.Fatalf("requests: %+v", list)
	}
	// The leader carries it out.
	store.put(t, record.Delete(record.RequestKey("n1", req.RequestID)), record.Put(record.WantedKey("mine-aaaaaa"), record.Wanted{Request: req.RequestID}))
	eventually(t, "the agent knows that it was carried out", func() bool {
		status, err := a.Job(t.Context(), "mine")
		return err == nil && status.Stopping
	})
	if reply, err := a.Stop(t.Context(), "mine", req); err != nil || !reply.Stopping || len(store.requests(t, "n1")) != 0 {
		t.Errorf("once more: %+v, %v", reply, err)
	}
	if _, err := a.Stop(t.Context(), "mine", api.StopRequest{RequestID: "../../x"}); api.CodeOf(err) != api.Invalid {
		t.Errorf("an identifier that is none: %v", err)
	}
}

func TestResumeIsForTheOwnerAndRoot(t *testing.T) {
	store := newFakeStore()
	owner := cluster.Owner{UID: 77, User: "owner"}
	for id, s := range map[cluster.JobID]record.State{
		"runs-aaaaaa": {Phase: cluster.Running}, "ended-aaaaaa": {Phase: cluster.Succeeded}, "bad-aaaaaa": {Phase: cluster.Failed, Reason: reason.Said("no such policy")},
		"lost-aaaaaa": {Phase: cluster.Held, Generation: 2}, "stopped-aaaaaa": {Phase: cluster.Stopped, Generation: 2},
		"twin-aaaaaa": {Phase: cluster.Stopped, Generation: 2}, "twin-bbbbbb": {Phase: cluster.Queued},
	} {
		store.admit(t, id, owner, s)
	}
	sound := record.Checkpoint{Generation: 1, Step: 80}
	store.put(t,
		record.Put(record.BadCheckpointKey("lost-aaaaaa", 120), record.BadCheckpoint{Checkpoint: record.Checkpoint{Generation: 1, Step: 120}, Reason: reason.Said("x is corrupt")}),
		record.Put(record.CheckpointKey("stopped-aaaaaa", 80), sound), record.Put(record.CommittedKey("stopped-aaaaaa"), sound),
	)
	step := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		who  cluster.Owner
		job  string
		from *int64
		code api.Code
		want string
		at   int64
	}{
		{stranger, "stopped", nil, api.Forbidden, "only its owner or root may resume it", 0},
		{owner, "runs", nil, api.Invalid, "is running: only a stopped, failed or held job", 0},
		{owner, "ended", nil, api.Invalid, "nothing left to resume", 0},
		{owner, "bad", nil, api.Invalid, "refused (no such policy): submit it again", 0},
		{owner, "twin-aaaaaa", nil, api.InUse, "in use by job twin-bbbbbb", 0},
		{owner, "lost", nil, api.Invalid, "step 120, given up: x is corrupt): say --from STEP", 0},
		{owner, "lost", step(7), api.Invalid, "no checkpoint of step 7", 0},
		{owner, "absent", nil, api.NotFound, "no job", 0},
		{owner, "stopped", nil, "", "", 80},
		{owner, "stopped", step(record.FromStart), "", "", record.FromStart},
		{cluster.Owner{User: "root"}, "lost", step(120), "", "", 120},
	} {
		before := len(store.requests(t, "n1"))
		reply, err := serve(t, store, "n1", &c.who).Resume(t.Context(), c.job, api.ResumeRequest{From: c.from})
		if c.code != "" {
			if api.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || len(store.requests(t, "n1")) != before {
				t.Errorf("%s resumes %s: %v, want %s %q and no request", c.who.User, c.job, err, c.code, c.want)
			}
			continue
		}
		if err != nil || reply.Step != c.at || len(store.requests(t, "n1")) != before+1 {
			t.Errorf("%s resumes %s: %+v, %v", c.who.User, c.job, reply, err)
		}
	}
	jobs, err := serve(t, store, "n1", &owner).Job(t.Context(), "lost")
	if err != nil || len(jobs.Checkpoints) != 1 || jobs.Checkpoints[0].Bad != "x is corrupt" {
		t.Errorf("what was given up is not shown: %+v, %v", jobs.Checkpoints, err)
	}
}

func TestUserHeaderIsBelievedOfAgentsOnly(t *testing.T) {
	store := newFakeStore()
	end := cluster.Owner{UID: 77, GID: 8, User: "a:b"}
	forger := serve(t, store, "n1", &stranger).As(api.FormatUser(end))
	if _, err := forger.Status(t.Context()); api.CodeOf(err) != api.Forbidden {
		t.Errorf("a stranger speaks for others: %v", err)
	}
	agent := serve(t, store, "n1", nil)
	status, err := agent.As(api.FormatUser(end)).Status(t.Context())
	if err != nil || status.Caller != end.User {
		t.Errorf("%+v, %v; want caller %s", status, err, end.User)
	}
	if _, err := agent.As("root").Status(t.Context()); api.CodeOf(err) != api.Invalid {
		t.Errorf("a header without numbers: %v", err)
	}
}

func TestDrainIsForOperators(t *testing.T) {
	store := newFakeStore()
	store.put(t,
		record.Put(record.AliveKey("n1"), record.Alive{}), record.Put(record.InventoryKey("n1"), record.Inventory{}),
		record.Put(record.InventoryKey("n2"), record.Inventory{}), record.Put(record.GrantKey("n2", "j-aaaaaa"), record.Grant{Generation: 1}),
	)
	thief, mine := serve(t, store, "n1", &stranger), serve(t, store, "n1", nil)
	_, theft := thief.Drain(t.Context(), "n1", api.DrainRequest{})
	_, absent := mine.Drain(t.Context(), "n9", api.DrainRequest{})
	_, alive := mine.Drain(t.Context(), "n1", api.DrainRequest{Down: true})
	_, idle := mine.Undrain(t.Context(), "n1")
	for want, err := range map[string]error{
		"may take nodes out of service; you are": theft, `no node "n9"`: absent, "its lease is renewed": alive, "is not drained": idle,
	} {
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if theft == nil || absent == nil || alive == nil || idle == nil || len(store.requests(t, "n1")) != 0 {
		t.Errorf("accepted: %v, %v, %v, %v", theft, absent, alive, idle)
	}
	reply, err := mine.Drain(t.Context(), "n2", api.DrainRequest{Reason: "new\n memory", Down: true})
	requests := store.requests(t, "n1")
	if err != nil || reply.Jobs != 1 || len(requests) != 1 || requests[0].Reason != "new memory" || !requests[0].Down || requests[0].Node != "n2" {
		t.Errorf("%+v, %v: %+v", reply, err, requests)
	}
}

func TestRemoveIsForOperators(t *testing.T) {
	store := newFakeStore()
	store.admit(t, "train-aaaaaa", self(), record.State{Phase: cluster.Halting, Generation: 4})
	store.plan(t, "train-aaaaaa", 4, "n2", "n3")
	store.put(t,
		record.Put(record.AliveKey("n1"), record.Alive{}), record.Put(record.InventoryKey("n1"), record.Inventory{}),
		record.Put(record.InventoryKey("n2"), record.Inventory{}), record.Put(record.InventoryKey("n3"), record.Inventory{}),
		record.Put(record.FenceKey("train-aaaaaa", 4, "n3"), record.Fence{}),
	)
	thief, mine := serve(t, store, "n1", &stranger), serve(t, store, "n1", nil)
	_, theft := thief.Remove(t.Context(), "n3")
	_, absent := mine.Remove(t.Context(), "n9")
	_, alive := mine.Remove(t.Context(), "n1")
	_, busy := mine.Remove(t.Context(), "n2")
	for want, err := range map[string]error{
		"may take nodes out of service; you are": theft, `no node "n9"`: absent, "n1 is alive": alive, "generation 4 of job train-aaaaaa is not over on node n2": busy,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// Without a leader the removal is only requested; with one it is done.
	reply, err := mine.Remove(t.Context(), "n3")
	requests := store.requests(t, "n1")
	if err != nil || reply.Removed || len(requests) != 1 || requests[0].Kind != record.RemoveRequest || requests[0].Node != "n3" {
		t.Errorf("%+v, %v: %+v", reply, err, requests)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		reply, err = mine.Remove(t.Context(), "n3")
		done <- err
	}()
	eventually(t, "a second request", func() bool { return len(store.requests(t, "n1")) == 2 })
	store.put(t, record.Delete(record.InventoryKey("n3")))
	if err := <-done; err != nil || !reply.Removed {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestScaleIsForTheOwnerAndRoot(t *testing.T) {
	store := newFakeStore()
	owner := cluster.Owner{UID: 77, User: "owner"}
	store.admit(t, "mine-aaaaaa", owner, record.State{Phase: cluster.Running, Generation: 1})
	store.admit(t, "gone-aaaaaa", owner, record.State{Phase: cluster.Succeeded})
	for _, c := range []struct {
		who  cluster.Owner
		job  string
		req  api.ScaleRequest
		code api.Code
		want string
	}{
		{stranger, "mine", api.ScaleRequest{MaxWorkers: 2}, api.Forbidden, "only its owner or root may scale it"},
		{owner, "gone", api.ScaleRequest{MaxWorkers: 2}, api.Invalid, "has no workers any more"},
		{owner, "mine", api.ScaleRequest{MinWorkers: 64}, api.Invalid, "min workers 64 is above max workers"},
		{owner, "mine", api.ScaleRequest{MinWorkers: 3, MaxWorkers: 3}, api.Invalid, "no power of two"},
		{owner, "mine", api.ScaleRequest{MaxWorkers: -2}, api.Invalid, "max workers -2"},
		{owner, "mine", api.ScaleRequest{MinWorkers: 2, MaxWorkers: 4}, "", ""},
	} {
		before := len(store.requests(t, "n1"))
		reply, err := serve(t, store, "n1", &c.who).Scale(t.Context(), c.job, c.req)
		if c.code != "" {
			if api.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || len(store.requests(t, "n1")) != before {
				t.Errorf("%s scales %s to %+v: %v, want %s %q and no request", c.who.User, c.job, c.req, err, c.code, c.want)
			}
			continue
		}
		if err != nil || reply.MinWorkers != 2 || reply.MaxWorkers != 4 || len(store.requests(t, "n1")) != before+1 {
			t.Errorf("%+v, %v", reply, err)
		}
	}
	store.put(t, record.Put(record.WantedKey("mine-aaaaaa"), record.Wanted{Run: true, MinWorkers: 2, MaxWorkers: 4}))
	a := serve(t, store, "n1", &owner)
	eventually(t, "the new bounds are shown", func() bool {
		j, err := a.Job(t.Context(), "mine")
		return err == nil && j.MinWorkers == 2 && j.MaxWorkers == 4
	})
}

// A node that a job names and that there is not is most likely mistyped: said at once, in few words.
func TestUnknownNodesAreWarnedOf(t *testing.T) {
	store := newFakeStore()
	for i := range 500 {
		store.put(t, record.Put(record.InventoryKey(cluster.NodeID(fmt.Sprintf("n%03d", i))), record.Inventory{}))
	}
	a := serve(t, store, "n000", nil)
	spec := goodSpec("picky")
	spec.Where = cluster.Where{Nodes: []cluster.NodeID{"n001", "n1"}, Not: []cluster.NodeID{"n002", "n2"}}
	reply, err := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec})
	const known = "it has n000, n001, n002, n003, n004, n005, n006, n007, n008, n009 and 490 more: `bellows nodes` lists them"
	want := []string{
		`the cluster has no node "n1", so the job waits for it unless another that it names will do; ` + known,
		`the cluster has no node "n2", so there is nothing to exclude; ` + known,
	}
	if err != nil || !slices.Equal(reply.Warnings, want) {
		t.Errorf("got %q, %v", reply.Warnings, err)
	}
}

// A leader that is older than no_new_privs would drop it: such a job is refused until
// one has led that records limits, as all do that keep to it.
func TestNoNewPrivsNeedsALeaderThatKnowsIt(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a := serve(t, store, "n1", nil)
	submit := func(privs bool) error {
		spec := goodSpec(strings.ToLower(api.NewRequestID()))
		spec.NoNewPrivs = privs
		_, err := a.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec})
		return err
	}
	eventually(t, "the agent has read the records", func() bool { return submit(false) == nil })
	if err := submit(true); api.CodeOf(err) != api.Unavailable || !strings.Contains(err.Error(), "no_new_privs: no leader") {
		t.Errorf("got %v", err)
	}
	store.put(t, record.Put(record.LimitsKey, record.DefaultLimits()))
	eventually(t, "it is accepted under a newer leader", func() bool { return submit(true) == nil })
}

// A client that has seen a record in etcd can wait until an agent tells of it.
func TestStatusSaysHowFarTheRecordsAreRead(t *testing.T) {
	store, owner := newFakeStore(), cluster.Owner{UID: 77, User: "owner"}
	agent := serve(t, store, "n1", &owner)
	for i := range 3 {
		store.admit(t, cluster.JobID(fmt.Sprintf("j%d-aaaaaa", i)), owner, record.State{Phase: cluster.Queued})
		kvs, revision, err := store.Range(t.Context(), record.JobsPrefix)
		if err != nil || len(kvs) == 0 {
			t.Fatal(err)
		}
		eventually(t, "the agent has read the records", func() bool {
			status, err := agent.Status(t.Context())
			if err != nil || status.Revision > revision {
				t.Fatalf("%+v, %v; etcd is at %d", status, err, revision)
			}
			return status.Revision == revision
		})
		if jobs, err := agent.Jobs(t.Context(), true); err != nil || len(jobs) != i+1 {
			t.Errorf("at revision %d it tells of %d jobs, %v; want %d", revision, len(jobs), err, i+1)
		}
	}
}

package lead_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/lead"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
)

// soon is far more than anything here takes, even on a loaded machine.
const soon = 2 * time.Minute

func TestLeaderRunsAJob(t *testing.T) {
	w := newWorld(t)
	w.candidate("c1")
	w.node("n1", 2)
	w.submit("j-aaaaaa", 2, 2)
	w.phase("j-aaaaaa", cluster.Running)
	w.stop("j-aaaaaa")
	w.phase("j-aaaaaa", cluster.Stopped)
	w.log.wait(t, `"phase":"stopped"`) // the outcome comes back a moment after the record is there
	if log := w.log.String(); strings.Count(log, `"phase":"running"`) != 1 || strings.Count(log, `"phase":"stopped"`) != 1 {
		t.Errorf("the log has not one line for each change of phase:\n%s", log)
	}
}

func TestSuccessorGoesOnAfterResignation(t *testing.T) {
	w := newWorld(t)
	first := w.candidate("c1")
	w.node("n1", 2)
	w.submit("j-aaaaaa", 1, 1)
	w.phase("j-aaaaaa", cluster.Running)
	w.candidate("c2")
	w.end(first)
	w.submit("k-aaaaaa", 1, 1)
	w.phase("k-aaaaaa", cluster.Running)
	if g := w.state("j-aaaaaa").Generation; g != 1 {
		t.Errorf("the change of leaders has moved the running job to generation %d", g)
	}
}

// A leader that dies leaves its key to its lease; until that has expired there is no leader.
func TestSuccessorGoesOnAfterDeath(t *testing.T) {
	w := newWorld(t)
	first := w.candidate("c1")
	w.node("n1", 2)
	w.submit("j-aaaaaa", 1, 2)
	w.phase("j-aaaaaa", cluster.Running)
	w.candidate("c2")
	if err := first.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.stop("j-aaaaaa") // no leader reads it
	w.phase("j-aaaaaa", cluster.Stopped)
}

// A leader whose key is deleted under it stops, and leads again in another term.
func TestLeaderWhoseKeyGoesStandsAgain(t *testing.T) {
	w := newWorld(t)
	w.candidate("c1")
	w.node("n1", 1)
	w.submit("j-aaaaaa", 1, 1)
	w.phase("j-aaaaaa", cluster.Running)
	w.commit(record.DeletePrefix(record.LeaderPrefix))
	w.stop("j-aaaaaa")
	w.phase("j-aaaaaa", cluster.Stopped)
}

// A policy that breaks the rules changes nothing, and the job says why it waits.
func TestBadPolicyIsReported(t *testing.T) {
	w := newWorld(t)
	w.policy = rogue{}
	w.candidate("c1")
	w.node("n1", 1)
	w.submit("j-aaaaaa", 1, 1)
	w.until("the job gives the reason", func(m *record.Mirror) bool {
		return strings.Contains(m.Job("j-aaaaaa").State.Value.Reason.String(), "no decision: check the answer of policy rogue")
	})
}

// A job on more nodes than etcd takes operations in one transaction runs, and lets go of all of them.
func TestJobOnManyNodes(t *testing.T) {
	const nodes = record.DefaultMaxTxnOps
	w := newWorld(t)
	w.candidate("c1")
	for i := range nodes {
		w.enter(cluster.NodeID(fmt.Sprintf("n%d", i+1)), 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		w.follow(ctx, func(m *record.Mirror) bool {
			for _, n := range m.NodeIDs() {
				w.obey(ctx, m.Node(n), m)
			}
			return false
		})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	w.submit("j-aaaaaa", nodes, nodes)
	w.phase("j-aaaaaa", cluster.Running)
	w.stop("j-aaaaaa")
	w.phase("j-aaaaaa", cluster.Stopped)
	w.until("no node has a grant", func(m *record.Mirror) bool {
		for _, n := range m.NodeIDs() {
			if len(m.Node(n).Grants) > 0 {
				return false
			}
		}
		return true
	})
}

type rogue struct{}

func (rogue) Name() string { return "rogue" }

func (rogue) Allocate(in allocator.Input) allocator.Output {
	return allocator.Output{Decisions: []allocator.Decision{{Job: in.Jobs[0].ID, Workers: 3}}}
}

// A leader that was frozen past its lease sends nothing any more, although its key
// may be there: etcd may have been restored from a backup that holds it.
func TestAFrozenLeaderSendsNothing(t *testing.T) {
	w := newWorld(t)
	var slept atomic.Int64
	first := w.candidateOn("c1", w.open(store.Config{
		LeaderTTL: time.Hour, // no timer fires, and nothing is renewed, meanwhile
		Clock:     func() time.Duration { return store.Boottime() + time.Duration(slept.Load()) },
	}))
	w.node("n1", 2)
	w.submit("j-aaaaaa", 1, 1)
	w.phase("j-aaaaaa", cluster.Running)
	slept.Store(int64(2 * time.Hour))
	w.submit("k-aaaaaa", 1, 1)
	w.log.wait(t, "leadership lost")
	w.end(first)
	if m := w.listed(); m.Job("k-aaaaaa").Spec.Exists() || len(m.Node("n1").Requests) != 1 {
		t.Errorf("it has admitted a job with its lease in doubt: %+v", m.Job("k-aaaaaa"))
	}
}

// listed reads all records.
func (w *world) listed() *record.Mirror {
	w.t.Helper()
	kvs, revision, err := w.own.Range(w.t.Context(), record.Root)
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := record.NewMirror(kvs, revision)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// world is an etcd with candidates, and agents that do what they are asked for.
type world struct {
	t        *testing.T
	endpoint string
	own      *store.Store
	policy   allocator.Policy
	log      *journal
}

type running struct {
	store *store.Store
	stop  context.CancelFunc
	done  chan error

	window *lead.Window
	seen   *notebook
}

func newWorld(t *testing.T) *world {
	t.Helper()
	share, err := policy.ByName("share")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, endpoint: etcdtest.Endpoint(t), policy: share, log: &journal{grown: make(chan struct{})}}
	w.own = w.open(store.Config{CallTimeout: soon})
	return w
}

// open connects to etcd, however busy the machine is.
func (w *world) open(c store.Config) *store.Store {
	w.t.Helper()
	c.Endpoints, c.DialTimeout, c.LeaderTTL = []string{w.endpoint}, soon, cmp.Or(c.LeaderTTL, 2*time.Second)
	s, err := store.Open(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return s
}

// candidate starts one that ends with the test.
func (w *world) candidate(name string) *running {
	w.t.Helper()
	return w.candidateOn(name, w.open(store.Config{}))
}

func (w *world) candidateOn(name string, s *store.Store) *running {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	r := &running{store: s, stop: stop, done: make(chan error, 1), window: lead.NewWindow(), seen: &notebook{}}
	go func() {
		r.done <- lead.Run(ctx, lead.Config{
			Window: r.window, Observer: r.seen,
			Store: r.store, Policy: w.policy, Interval: 100 * time.Millisecond, Node: name, Log: zerolog.New(w.log).Level(zerolog.InfoLevel),
		})
		close(r.done)
	}()
	w.t.Cleanup(func() {
		stop()
		for range r.done { // until it is closed
		}
	})
	return r
}

// end stops a candidate in good order.
func (w *world) end(r *running) {
	w.t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			w.t.Errorf("a candidate that was stopped returned %v", err)
		}
	case <-time.After(soon):
		w.t.Fatal("a candidate that was stopped does not return")
	}
}

func (w *world) commit(ops ...record.Op) {
	w.t.Helper()
	if out := w.own.Commit(w.t.Context(), record.Txn{ID: "test", Then: ops}); out.Result != record.Applied {
		w.t.Fatalf("commit: %v %v", out.Result, out.Err)
	}
}

// enter brings a node up.
func (w *world) enter(n cluster.NodeID, devices int) {
	w.t.Helper()
	var inv record.Inventory
	for i := range devices {
		inv.Devices = append(inv.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("%s-%d", n, i)), Health: cluster.Healthy})
	}
	w.commit(
		record.Put(record.AliveKey(n), record.Alive{Addr: "127.0.0.1", Ports: record.Ports{First: 7000, Count: 10}}),
		record.Put(record.InventoryKey(n), inv),
	)
}

// node brings a node up whose agent obeys at once.
func (w *world) node(n cluster.NodeID, devices int) {
	w.t.Helper()
	w.enter(n, devices)
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { w.follow(ctx, func(m *record.Mirror) bool { w.obey(ctx, m.Node(n), m); return false }) })
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

// obey acknowledges what the records ask of the node.
func (w *world) obey(ctx context.Context, v *record.NodeView, m *record.Mirror) {
	for job, grant := range v.Grants {
		g := grant.Value.Generation
		gen := m.Job(job).Generation(g)
		acks := v.Ack(job, g, gen.Plan.Value.World.Nonce)
		ack := func(a record.Ack, value any) {
			key := record.AckKey(v.ID, job, g, a)
			w.own.Commit(ctx, record.Txn{ID: "ack", If: []record.Compare{record.Absent(key)}, Then: []record.Op{record.Put(key, value)}})
		}
		switch {
		case gen.Plan.Exists() && gen.Permit.Exists() && !gen.Halt.Exists() && !acks.Started.Exists():
			ack(record.AckStarted, record.Started{ExecedAt: time.Now()})
		case gen.Halt.Exists() && !acks.Stopped.Exists():
			ack(record.AckStopped, record.Stopped{SignalledAt: time.Now(), ExitedAt: time.Now()})
		}
	}
}

// follow keeps a mirror of the records until ctx ends or seen says that it is enough.
func (w *world) follow(ctx context.Context, seen func(*record.Mirror) bool) {
	kvs, revision, err := w.own.Range(ctx, record.Root)
	if err != nil {
		return // the test is over
	}
	m, err := record.NewMirror(kvs, revision)
	if err != nil || seen(m) {
		return
	}
	watch := w.own.Watch(ctx, revision+1, record.Root)
	for batch := range watch.C {
		for _, c := range batch.Changes {
			if _, err := m.Apply(c); err != nil {
				w.t.Error(err)
			}
		}
		if seen(m) {
			break
		}
	}
	if err := watch.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) until(what string, seen func(*record.Mirror) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), soon)
	defer cancel()
	met := false
	w.follow(ctx, func(m *record.Mirror) bool {
		met = seen(m)
		return met
	})
	if !met {
		w.t.Fatalf("not within %v: %s\n%s", soon, what, w.log)
	}
}

func (w *world) phase(job cluster.JobID, want cluster.Phase) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s is %s", job, want), func(m *record.Mirror) bool { return m.Job(job).State.Value.Phase == want })
}

func (w *world) state(job cluster.JobID) (s record.State) {
	w.t.Helper()
	w.until("the job has a state", func(m *record.Mirror) bool {
		s = m.Job(job).State.Value
		return s.Phase != ""
	})
	return s
}

func (w *world) submit(job cluster.JobID, least, most int) {
	w.t.Helper()
	name, _, _ := strings.Cut(string(job), "-")
	w.commit(record.Put(record.RequestKey("n1", string(job)), record.Request{
		Kind: record.SubmitRequest, Job: job, Owner: cluster.Owner{UID: 1000, User: "ann"}, At: time.Now(),
		Spec: &cluster.Spec{Name: name, Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c", MinWorkers: least, MaxWorkers: most, BatchSize: cluster.BatchSize{Min: 256}},
	}))
}

func (w *world) stop(job cluster.JobID) {
	w.t.Helper()
	w.commit(record.Put(record.RequestKey("n1", "stop-"+string(job)), record.Request{
		Kind: record.StopRequest, Job: job, Owner: cluster.Owner{UID: 1000, User: "ann"}, At: time.Now(),
	}))
}

// journal is a log that several goroutines write to, and that can be waited for.
type journal struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	grown chan struct{} // closed, and replaced, by each write
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.grown)
	j.grown = make(chan struct{})
	return j.buf.Write(p)
}

// wait returns when the log holds the text.
func (j *journal) wait(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(soon)
	for {
		j.mu.Lock()
		held, grown := strings.Contains(j.buf.String(), text), j.grown
		j.mu.Unlock()
		if held {
			return
		}
		select {
		case <-grown:
		case <-timeout:
			t.Fatalf("the log does not say %s:\n%s", text, j)
		}
	}
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

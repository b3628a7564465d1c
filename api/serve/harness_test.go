package serve

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// fakeStore is record's etcd in memory behind the interface that a server wants.
type fakeStore struct {
	mu      sync.Mutex
	mem     *record.Memory
	changed chan struct{}
	down    bool          // etcd does not answer
	unknown int           // so many commits happen without their answer arriving
	lost    bool          // one has; until the last has, nothing else is answered either
	slow    time.Duration // of the watch
	silence time.Duration // for how long it has not answered
	full    record.Space  // what it says of that
}

func (s *fakeStore) space(context.Context) (record.Space, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full, nil
}

func (s *fakeStore) fill(full record.Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

func newFakeStore() *fakeStore {
	return &fakeStore{mem: record.NewMemory(), changed: make(chan struct{})}
}

func (s *fakeStore) Range(_ context.Context, prefixes ...string) ([]record.KV, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || s.lost && s.unknown > 0 {
		return nil, 0, context.DeadlineExceeded
	}
	kvs, revision := s.mem.Range(prefixes...)
	return kvs, revision, nil
}

func (s *fakeStore) Commit(_ context.Context, t record.Txn) record.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.mem.Commit(t)
	close(s.changed)
	s.changed = make(chan struct{})
	if s.unknown > 0 {
		s.unknown--
		s.lost = true
		return record.Outcome{ID: t.ID, Result: record.Unknown, Err: context.DeadlineExceeded}
	}
	return out
}

func (s *fakeStore) watch(ctx context.Context, from int64, apply func([]record.Change)) error {
	for {
		time.Sleep(s.slow)
		s.mu.Lock()
		changes, err := s.mem.Changes(from, record.Root)
		changed := s.changed
		s.mu.Unlock()
		if err != nil {
			return err
		}
		apply(changes)
		for _, c := range changes {
			from = max(from, c.ModRevision+1)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put writes records, as their owner would.
func (s *fakeStore) put(t *testing.T, ops ...record.Op) {
	t.Helper()
	if out := s.Commit(t.Context(), record.Txn{ID: t.Name(), Then: ops}); out.Result != record.Applied {
		t.Fatalf("put: %v %v", out.Result, out.Err)
	}
}

func (s *fakeStore) requests(t *testing.T, node cluster.NodeID) []record.Request {
	t.Helper()
	kvs, revision, err := s.Range(t.Context(), record.Root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := record.NewMirror(kvs, revision)
	if err != nil {
		t.Fatal(err)
	}
	var list []record.Request
	for _, r := range m.Node(node).Requests {
		list = append(list, r.Value)
	}
	return list
}

// agent is one node's server on a real socket.
type agent struct {
	*api.Client
	store  *fakeStore
	server *Server
	socket string
	logs   string
	stop   func()
}

// serve starts a server for a node. as is whom its connections are from; nil = the kernel's word.
func serve(t *testing.T, store *fakeStore, node cluster.NodeID, as *cluster.Owner) *agent {
	t.Helper()
	// A socket's path is short; t.TempDir's may not be.
	dir, err := os.MkdirTemp("", "api") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &agent{store: store, socket: filepath.Join(dir, "s"), logs: filepath.Join(dir, "logs")}
	a.server = NewServer(Config{
		KV: store, Watch: store.watch, Node: node, LogDir: a.logs, Version: "test", Log: zerolog.Nop(),
		Silence: func() time.Duration { return store.silence }, Space: store.space,
		Gossip: func() map[cluster.NodeID]string { return map[cluster.NodeID]string{node: "alive"} },
	})
	ln, err := Listen(a.socket)
	if err != nil {
		t.Fatal(err)
	}
	if as != nil {
		ln = pretender{ln, *as}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.server.Serve(ctx, ln) }()
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(a.stop)
	a.Client = api.NewClient(a.socket)
	eventually(t, "the server has read the records", func() bool { _, err := a.Status(t.Context()); return err == nil || store.down })
	return a
}

// pretender gives its connections another peer than the kernel names: a test cannot become other users.
type pretender struct {
	net.Listener
	as cluster.Owner
}

type pretended struct {
	net.Conn
	as cluster.Owner
}

func (p pretender) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	return pretended{c, p.as}, err
}

func (p pretended) Peer() (cluster.Owner, error) { return p.as, nil }

// patience is how long a test waits for any outcome before it fails.
const patience = 2 * time.Minute

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func goodSpec(name string) cluster.Spec {
	return cluster.Spec{Name: name, Command: []string{"python", "train.py"}, Workdir: "/w", CheckpointDir: "/c"}.WithDefaults()
}

// admit writes a job as the leader would.
func (s *fakeStore) admit(t *testing.T, id cluster.JobID, owner cluster.Owner, state record.State) {
	t.Helper()
	spec := goodSpec(string(id[:len(id)-7]))
	s.put(t,
		record.Put(record.SpecKey(id), record.Submitted{Spec: spec, ID: id, Owner: owner, At: time.Unix(1e9, 0)}),
		record.Put(record.WantedKey(id), record.Wanted{Run: true}),
		record.Put(record.StateKey(id), state),
	)
}

// plan writes a generation: node i of nodes has the ranks 2i and 2i+1.
func (s *fakeStore) plan(t *testing.T, id cluster.JobID, g cluster.Generation, nodes ...cluster.NodeID) {
	t.Helper()
	w := cluster.World{Job: id, Generation: g}
	for i, n := range nodes {
		w.Members = append(w.Members, cluster.Member{
			Node: n, FirstRank: 2 * i, Devices: []cluster.DeviceID{cluster.DeviceID("D-" + n + "-0"), cluster.DeviceID("D-" + n + "-1")},
		})
	}
	s.put(t,
		record.Put(record.PlanKey(id, g), record.Plan{World: w}),
		record.Put(record.StateKey(id), record.State{Phase: cluster.Running, Generation: g}),
	)
}

func self() cluster.Owner {
	return cluster.Owner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), User: userName(uint32(os.Getuid()))}
}

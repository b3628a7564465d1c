package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
	"github.com/bellows-ml/bellows/store/server"
)

// testProbeEvery is how often an agent of a test probes.
const testProbeEvery = 500 * time.Millisecond

// patience bounds what a test waits for; a busy machine takes its time.
const patience = 3 * time.Minute

// TestMain lets the test binary be an agent that can be killed without a word, and what looks as a job's owner.
func TestMain(m *testing.M) {
	ctx := context.Background()
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "internal" && os.Args[2] == "look":
		err = precheck.Answer(ctx, os.Stdin, os.Stdout)
	case len(os.Args) > 2 && os.Args[1] == "agent":
		err = agentProcess(ctx, os.Args[2])
	default:
		os.Exit(runTests(m))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// settings are a Config as a process can be given it.
type settings struct {
	Node       string
	Dir        string
	Runs       string // where runs are kept, below Dir; empty = "r"
	Etcd       string
	TTL        time.Duration
	GossipPort int
	Leave      bool
	Devices    nvml.Source  `json:"-"` // nil = four simulated ones
	Vitals     func(Vitals) `json:"-"`
}

func (s settings) config(log zerolog.Logger) Config {
	source := s.Devices
	if source == nil {
		source = nvml.Simulated(cluster.NodeID(s.Node), 4, nvml.SimulatedModel, 1<<30)
	}
	return Config{
		Node: cluster.NodeID(s.Node), Bind: "127.0.0.1", GossipPort: s.GossipPort,
		Ports:   record.Ports{First: 20000, Count: 1000},
		DataDir: filepath.Join(s.Dir, "data"), RunDir: filepath.Join(s.Dir, cmp.Or(s.Runs, "r")), LockDir: filepath.Join(s.Dir, "locks"),
		Socket: filepath.Join(s.Dir, "s"), Etcd: store.Config{Endpoints: []string{s.Etcd}},
		Devices: source, Strangers: devices.RefuseStrangers,
		Exe: program(), Version: "test", Leave: s.Leave, Log: log, TTL: s.TTL, Vitals: s.Vitals,
		lookEvery: time.Second, probeEvery: testProbeEvery,
	}
}

func agentProcess(ctx context.Context, text string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	return Run(ctx, s.config(zerolog.New(os.Stderr).With().Timestamp().Logger()))
}

// fixture is an etcd with a leader that is the test itself.
type fixture struct {
	*testing.T
	endpoint string
	store    *store.Store
	dir      string // of checkpoints and working directories
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, dir: t.TempDir()}
	f.endpoint = etcdtest.Endpoint(t)
	f.connect()
	return f
}

func startEtcd(t *testing.T, dir, client string) *server.Server {
	t.Helper()
	cfg := etcdtest.Config(dir)
	cfg.Client = client
	return etcdtest.Start(t, cfg)
}

func (f *fixture) connect() {
	f.Helper()
	// A machine that is busy for seconds is no fault of what is tested.
	s, err := store.Open(f.Context(), store.Config{Endpoints: []string{f.endpoint}, DialTimeout: patience, CallTimeout: patience})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.store = s
	if _, err := s.EnsureMeta(f.Context(), "test"); err != nil {
		f.Fatal(err)
	}
}

// settings makes a new node's.
func (f *fixture) settings(node string) settings {
	f.Helper()
	return settings{Node: node, Dir: shortDir(f.T), Etcd: f.endpoint}
}

// unfenced is for tests whose workers train for long: a busy machine keeps an agent from renewing its lease for seconds.
func (f *fixture) unfenced(node string) settings {
	s := f.settings(node)
	s.TTL = time.Minute
	return s
}

// shortDir is t.TempDir without the test's name: an agent's directory has sockets in it,
// whose paths are bounded.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "h") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// agent runs an agent in this process until the test ends, or stop is called.
func (f *fixture) agent(s settings) (stop func()) {
	f.Helper()
	return f.agentTo(s, &agenttest.Log{})
}

// logged runs an agent until the test ends, and returns what it logs.
func (f *fixture) logged(s settings) *agenttest.Log {
	f.Helper()
	log := &agenttest.Log{}
	f.agentTo(s, log)
	return log
}

// logTo is where an agent of a test logs to; it shows that if the test fails.
type logTo interface {
	io.Writer
	fmt.Stringer
}

func (f *fixture) agentTo(s settings, log logTo) (stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, s.config(zerolog.New(log).With().Timestamp().Logger())) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				f.Errorf("agent %s: %v", s.Node, err)
			}
		})
	}
	f.Cleanup(func() {
		stop()
		if f.Failed() {
			f.Logf("log of %s:\n%s", s.Node, log)
		}
		f.endShims(s)
	})
	f.alive(s.Node)
	return stop
}

// process runs an agent in a process of its own.
func (f *fixture) process(s settings) *exec.Cmd {
	f.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	cmd := exec.Command(exe, "agent", string(text))
	log := &agenttest.Log{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if f.Failed() {
			f.Logf("log of process %s:\n%s", s.Node, log)
		}
		f.endShims(s)
	})
	return cmd
}

// endShims ends what a test has left running.
func (f *fixture) endShims(s settings) {
	runs, _, _ := rundir.Scan(filepath.Join(s.Dir, "r"))
	if s.Runs != "" {
		more, _, _ := rundir.Scan(filepath.Join(s.Dir, s.Runs))
		runs = append(runs, more...)
	}
	for _, r := range runs {
		if f.Failed() {
			text, _ := os.ReadFile(filepath.Join(r.Dir, "shim.log"))
			f.Logf("%s:\n%s", r.Dir, text)
		}
		// On a busy machine what is killed may take longer to end than a sweep waits.
		err := sweep.Sweep(r.Dir, r.Order.LockDir, &r.Order.Owner)
		for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
			err = sweep.Sweep(r.Dir, r.Order.LockDir, &r.Order.Owner)
		}
		if err != nil {
			f.Error(err)
		}
	}
}

// alive waits until the node is in the cluster with its inventory, and returns its token.
func (f *fixture) alive(node string) int64 {
	f.Helper()
	await[record.Inventory](f, record.InventoryKey(cluster.NodeID(node)))
	return f.awaitKV(record.AliveKey(cluster.NodeID(node)), func(record.KV) bool { return true }).CreateRevision
}

// awaitKV waits for a record.
func (f *fixture) awaitKV(key string, good func(record.KV) bool) record.KV {
	f.Helper()
	var found record.KV
	f.until("record "+key, func() bool {
		kv, exists, err := f.store.Get(f.Context(), key)
		found = kv
		return err == nil && exists && good(kv)
	})
	return found
}

// await waits for a record and reads it.
func await[T any](f *fixture, key string) T {
	f.Helper()
	var v T
	if err := json.Unmarshal(f.awaitKV(key, func(record.KV) bool { return true }).Value, &v); err != nil {
		f.Fatal(err)
	}
	return v
}

// until waits for a condition, and looks less often the longer it has waited.
func (f *fixture) until(what string, good func() bool) {
	f.Helper()
	for began := time.Now(); !good(); {
		waited := time.Since(began)
		if waited > patience {
			f.Fatalf("waited in vain for %s; records:\n%s", what, f.dump())
		}
		time.Sleep(max(5*time.Millisecond, min(waited/20, 250*time.Millisecond)))
	}
}

func (f *fixture) dump() string {
	kvs, _, err := f.store.Range(f.Context(), record.Root)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, kv := range kvs {
		fmt.Fprintf(&b, "%s = %.300s\n", kv.Key, kv.Value)
	}
	return b.String()
}

func (f *fixture) absent(key string) bool {
	_, exists, err := f.store.Get(f.Context(), key)
	if err != nil {
		f.Fatal(err)
	}
	return !exists
}

func (f *fixture) commit(ops ...record.Op) {
	f.Helper()
	if out := f.store.Commit(f.Context(), record.Txn{ID: "test", Then: ops}); out.Result != record.Applied {
		f.Fatalf("commit: %s, %v", out.Result, out.Err)
	}
}

// job is a generation that the test plans.
type job struct {
	record.JobGen
	Spec    record.Submitted
	Members []cluster.Member
	Resume  *record.Checkpoint
	Doubted bool
	Nonce   string
}

// job describes a job with so many workers on each node.
func (f *fixture) job(name string, command []string, workers map[string]int, order ...string) *job {
	f.Helper()
	j := &job{JobGen: record.JobGen{Job: cluster.JobID(name), Generation: 1}}
	j.Spec = record.Submitted{
		ID: j.Job, Owner: cluster.Owner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), User: "me"},
		Spec: cluster.Spec{
			Name: name, Command: command, Workdir: f.dir, CheckpointDir: filepath.Join(f.dir, "ck"),
			Env: map[string]string{"PATH": os.Getenv("PATH")},
		}.WithDefaults(),
	}
	first := 0
	for _, node := range order {
		m := cluster.Member{Node: cluster.NodeID(node), AliveRev: f.alive(node), FirstRank: first}
		for i := range workers[node] {
			m.Devices = append(m.Devices, cluster.DeviceID(fmt.Sprintf("SIM-%s-%d", node, i)))
		}
		first += workers[node]
		j.Members = append(j.Members, m)
	}
	return j
}

// start writes what a leader writes to start a generation.
func (f *fixture) start(j *job) {
	f.Helper()
	plan := record.Plan{Resume: j.Resume, Doubted: j.Doubted, World: cluster.World{
		Job: j.Job, Generation: j.Generation, Members: j.Members,
		Master: cluster.Endpoint{Host: "127.0.0.1", Port: freePort(f.T)}, BatchSize: 8, Nonce: j.Nonce,
	}}
	ops := []record.Op{
		record.Put(record.SpecKey(j.Job), j.Spec),
		record.Put(record.PlanKey(j.Job, j.Generation), plan),
		record.Put(record.PermitKey(j.Job, j.Generation), record.Permit{At: time.Now()}),
	}
	for _, m := range j.Members {
		ops = append(ops, record.Put(record.GrantKey(m.Node, j.Job), record.Grant{Generation: j.Generation, Devices: m.Devices}))
	}
	f.commit(ops...)
}

func (f *fixture) halt(j *job, stopAfter *int64) {
	f.Helper()
	f.haltAs(j, stopAfter, false)
}

func (f *fixture) haltAs(j *job, stopAfter *int64, terminate bool) {
	f.Helper()
	f.commit(record.Put(record.HaltKey(j.Job, j.Generation), record.Halt{
		Why: reason.Said("test"), Save: true, At: time.Now(), Deadline: time.Now().Add(time.Minute), StopAfter: stopAfter, Terminate: terminate,
	}))
}

// ack waits for an acknowledgement of a node.
func ack[T any](f *fixture, j *job, node string, a record.Ack) T {
	f.Helper()
	return await[T](f, record.AckKey(cluster.NodeID(node), j.Job, j.Generation, a))
}

// freePort finds a port that stays free: below those that the system hands out
// to processes that ask for any port.
func freePort(t *testing.T) int {
	t.Helper()
	const first, count = 12_000, 8_000
	for range 100 {
		port := first + rand.IntN(count)
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			if err = l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func quiet() zerolog.Logger { return zerolog.Nop() }

// lives reports whether a worker's process does; a zombie does not.
func lives(w record.Worker) bool {
	return proc.Alive(run.Process{PID: w.PID, StartTime: w.StartTime, BootID: proc.BootID()})
}

// apiNodes asks an agent's API what it hears of the nodes.
func apiNodes(f *fixture, s settings) (map[string]string, error) {
	list, err := api.NewClient(filepath.Join(s.Dir, "s")).Nodes(f.Context())
	states := map[string]string{}
	for _, n := range list {
		states[n.ID] = n.Gossip
	}
	return states, err
}

// bareNode is a node that nobody reaches, and whose loop the test is.
func bareNode(ctx context.Context, cfg Config, s *store.Store) *node {
	sh := newShared(ctx, cfg, s, nil)
	return newNode(sh, newSession(sh), nil, here{})
}

package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/etcdtest"
)

func TestKilledAgentsSuccessorAdoptsTheSameProcesses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	s.TTL = time.Minute // the successor has to be there within it, on a busy machine too
	agent := f.process(s)
	token := f.alive("n1")
	j := f.job("long", sleeper(), map[string]int{"n1": 2}, "n1")
	f.start(j)
	before := ack[record.Started](f, j, "n1", record.AckStarted)
	for range 3 {
		if err := agent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = agent.Wait()
		agent = f.process(s)
		f.until("the successor", func() bool {
			status, err := api.NewClient(filepath.Join(s.Dir, "s")).Status(t.Context())
			return err == nil && status.Node == "n1"
		})
		if now := f.alive("n1"); now != token {
			t.Fatalf("the successor is another life: token %d, before %d", now, token)
		}
		for _, w := range before.Workers {
			if !lives(w) {
				t.Fatalf("rank %d is gone", w.Rank)
			}
		}
	}
	f.commit(record.Delete(record.PermitKey(j.Job, 1)))
	stopped := ack[record.Stopped](f, j, "n1", record.AckStopped)
	if len(stopped.Exits) != 2 {
		t.Errorf("stopped: %+v", stopped)
	}
	f.until("an empty run directory", func() bool { return f.empty(s) })
}

func TestWhatHappenedWhileTheAgentWasDeadIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	agent := f.process(s)
	j := f.job("short", []string{"/bin/sh", "-c", `while [ ! -e "$BELLOWS_CHECKPOINT_DIR/go" ]; do sleep 0.02; done; exit 7`},
		map[string]int{"n1": 1}, "n1")
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0]
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	if err := os.WriteFile(filepath.Join(f.dir, "ck", "short", "g00000001", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f.until("the worker's end", func() bool { return !lives(worker) })
	f.process(s)
	if failed := ack[record.Failed](f, j, "n1", record.AckFailed); failed.Kind != record.WorkerFailed || failed.Rank != 0 {
		t.Errorf("failed: %+v", failed)
	}
	if stopped := ack[record.Stopped](f, j, "n1", record.AckStopped); len(stopped.Exits) != 1 || stopped.Exits[0].Code != 7 {
		t.Errorf("stopped: %+v", stopped)
	}
}

// A frozen agent cannot renew. Its shim does not wait for it.
func TestFrozenAgentIsFencedAndComesBackAsAnotherLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n2")) // a second node, without which no node fences itself
	s := f.settings("n1")
	s.TTL = 8 * time.Second
	agent := f.process(s)
	token := f.alive("n1")
	j := f.job("long", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0]
	if err := agent.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	late := lateness(t)
	f.until("the worker to be killed or the lease to end", func() bool { return !lives(worker) || f.absent(record.AliveKey("n1")) })
	if lives(worker) {
		// Between deadline and end of the lease lies fence.Margin, in which a shim that gets its turn kills.
		f.until("the worker to be killed", func() bool { return !lives(worker) })
		if late := late(); late < fence.Margin/2 {
			t.Errorf("the lease has ended before the worker, though processes waited for their turn for no more than %v", late)
		}
	}
	f.until("the lease to end", func() bool { return f.absent(record.AliveKey("n1")) })
	if err := agent.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if failed := ack[record.Failed](f, j, "n1", record.AckFailed); failed.Kind != record.NodeFenced {
		t.Errorf("failed: %+v", failed)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	if now := f.alive("n1"); now == token {
		t.Error("it came back with the token of the life that was lost")
	}
}

// lateness measures how much later than it asked for this process is woken, until the
// test ends: the most so far, twice, for the processes that it has started have that to
// bear too.
func lateness(t *testing.T) func() time.Duration {
	t.Helper()
	var worst atomic.Int64
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		const beat = 5 * time.Millisecond
		for {
			began := time.Now()
			select {
			case <-ended:
				return
			case <-time.After(beat):
				worst.Store(max(worst.Load(), int64(time.Since(began)-beat)))
			}
		}
	})
	t.Cleanup(func() { close(ended); wg.Wait() })
	return func() time.Duration { return 2 * time.Duration(worst.Load()) }
}

// Where no other node could take over, etcd may be away for as long as it likes.
func TestSingleNodeDoesNotFenceItself(t *testing.T) {
	t.Parallel()
	f := &fixture{T: t, dir: t.TempDir()}
	etcdDir := t.TempDir()
	f.endpoint = startEtcdAt(t, etcdDir)
	etcd := startEtcd(t, etcdDir, f.endpoint)
	f.connect()
	s := f.settings("n1")
	s.TTL = 2 * time.Second
	f.agent(s)
	j := f.job("long", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0]
	if err := etcd.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	down := time.Now()
	f.until("the lease's time to be over, twice", func() bool { return time.Since(down) > 2*s.TTL })
	if !lives(worker) {
		t.Fatal("the worker was killed")
	}
	startEtcd(t, etcdDir, f.endpoint)
	f.commit(record.Delete(record.PermitKey(j.Job, 1)))
	ack[record.Stopped](f, j, "n1", record.AckStopped)
}

func TestDeletedAliveKeyBeginsAnotherLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n1"))
	token := f.alive("n1")
	f.commit(record.Delete(record.AliveKey("n1")))
	f.until("another life", func() bool { return f.alive("n1") != token })
}

func TestDeadShimIsSweptAndReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	j := f.job("long", sleeper(), map[string]int{"n1": 2}, "n1")
	f.start(j)
	started := ack[record.Started](f, j, "n1", record.AckStarted)
	runs, _, err := rundir.Scan(filepath.Join(s.Dir, "r"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
	if err := syscall.Kill(runs[0].Shim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if failed := ack[record.Failed](f, j, "n1", record.AckFailed); failed.Kind != record.NodeFenced || !strings.Contains(failed.Reason, "shim") {
		t.Errorf("failed: %+v", failed)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	for _, w := range started.Workers {
		if lives(w) {
			t.Errorf("rank %d lives", w.Rank)
		}
	}
	f.until("an empty run directory", func() bool { return f.empty(s) })
}

// A lease is not renewed before its node is in the cluster: an agent that was
// stopped for that long has to get another.
func TestLeaseThatEndedBeforeItsLifeBeganIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	data, err := openDataDir(t.TempDir(), "n1", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer data.close() //nolint:errcheck // nothing is written through it
	lease, err := f.store.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(data.keepLease(lease), f.store.Revoke(t.Context(), lease)); err != nil {
		t.Fatal(err)
	}
	l := &life{store: f.store, dir: data, node: record.AliveKey("n1"), cfg: Config{Node: "n1", TTL: time.Minute}, log: quiet()}
	if _, _, err = l.claim(t.Context(), lease); !errors.Is(err, record.ErrLeaseNotFound) {
		t.Errorf("claimed with a lease that has ended: %v", err)
	}
	p, granted, err := l.hold(t.Context())
	if err != nil || !granted || p.lease == lease {
		t.Errorf("holds %x, granted %t, %v: it had %x", p.lease, granted, err, lease)
	}
}

// However late etcd's answer comes, the deadline counts from the question. What the
// wire holds up may be another matter of the connection's, ahead of the question;
// not each time.
func TestDeadlinesCountFromTheSending(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.wire()
	s, err := store.Open(t.Context(), store.Config{Endpoints: []string{w.listener.Addr().String()}, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test's own
	data, err := openDataDir(t.TempDir(), "n1", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer data.close() //nolint:errcheck // nothing is written through it
	const ttl = time.Minute
	l := &life{store: s, dir: data, node: record.AliveKey("n1"), cfg: Config{Node: "n1", TTL: ttl}, log: quiet()}
	var last presence
	hold := func() (err error) {
		last, _, err = l.hold(t.Context())
		return err
	}
	keep := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		l.report = func(p presence) {
			last = p
			cancel()
		}
		if err := l.keep(ctx, last); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	renew := func() error {
		if err := data.dropLease(); err != nil {
			return err
		}
		return hold()
	}
	for name, do := range map[string]func() error{"a new lease": renew, "a predecessor's": hold, "kept": keep} {
		if err := hold(); err != nil {
			t.Fatal(err)
		}
		const rounds = 10
		late := 0
		for range rounds {
			heal := f.hold(&w.cut)
			asked := store.Boottime()
			done := make(chan error, 1)
			go func() { done <- do() }()
			f.until("the question", func() bool { return w.waiting.Load() > 0 })
			unanswered := store.Boottime()
			heal()
			if err := <-done; err != nil || last.renewed < asked {
				t.Fatalf("%s: asked at %v, renewed at %v, %v", name, asked, last.renewed, err)
			}
			if last.renewed > unanswered {
				late++
			}
			if want := fence.Deadline(int64(last.renewed), ttl, ttl/4); last.deadline != want {
				t.Errorf("%s: deadline %d, want %d", name, last.deadline, want)
			}
		}
		if late == rounds {
			t.Errorf("%s: counted from the answer", name)
		}
	}
}

func TestWhoMayNotBeThisNodeIsToldWhy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	same := s.config(quiet())
	same.Socket += "2"
	if err := Run(t.Context(), same); !errors.Is(err, ErrDataDirInUse) {
		t.Errorf("same data directory: %v", err)
	}
	twin := f.settings("n1")
	err := Run(t.Context(), twin.config(quiet()))
	if !errors.Is(err, ErrNameInUse) || !strings.Contains(err.Error(), "alive at 127.0.0.1") || !strings.Contains(err.Error(), "incarnation") {
		t.Errorf("same name: %v", err)
	}
	kept, err := (&dataDir{path: filepath.Join(twin.Dir, "data")}).lease()
	if kept != 0 || err != nil {
		t.Errorf("the refused agent keeps lease %x, %v", kept, err)
	}
	other := f.settings("n7").config(quiet())
	other.Cluster = "elsewhere"
	if err = Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), `cluster "test", not "elsewhere"`) {
		t.Errorf("another cluster: %v", err)
	}
	bad := f.settings("../x").config(quiet())
	bad.Bind, bad.Ports = "0.0.0.0", record.Ports{First: 65000, Count: 1000}
	err = Run(t.Context(), bad)
	for _, want := range []string{"node: name", `bind "0.0.0.0"`, "ports 65000+1000"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}

func TestDataDirectoryIsOnesOwn(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d, err := openDataDir(path, "n1", "a")
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(d.keepLease(1<<62), d.close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ node, cluster, want string }{
		{"n2", "a", `belongs to node "n1"`},
		{"n1", "b", `belongs to cluster "a"`},
	} {
		if _, err = openDataDir(path, "", ""); err == nil {
			t.Error("a directory of a node was given to a process without a node")
		}
		if _, err = openDataDir(path, cluster.NodeID(c.node), c.cluster); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	d, err = openDataDir(path, "n1", "")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := d.lease(); id != 1<<62 || err != nil {
		t.Errorf("lease %x, %v", id, err)
	}
	if err := errors.Join(d.write(identityFile, identity{Format: dataFormat + 1, Node: "n1"}), d.close()); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(path, "n1", ""); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("a newer format: %v", err)
	}
}

// Nothing is lost while etcd is away: neither the agent's start nor what it has to say.
func TestEtcdMayComeLateAndGoAway(t *testing.T) {
	t.Parallel()
	f := &fixture{T: t, dir: t.TempDir()}
	etcdDir := t.TempDir()
	f.endpoint = startEtcdAt(t, etcdDir) // finds a port, and is gone again
	s := f.settings("n1")
	agent := f.process(s)
	etcd := startEtcd(t, etcdDir, f.endpoint)
	f.connect()
	f.alive("n1")
	j := f.job("brief", []string{"/bin/sh", "-c", `while [ ! -e "$BELLOWS_CHECKPOINT_DIR/go" ]; do sleep 0.02; done`},
		map[string]int{"n1": 1}, "n1")
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0]
	if err := etcd.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "ck", "brief", "g00000001", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f.until("the worker's end", func() bool { return !lives(worker) })
	startEtcd(t, etcdDir, f.endpoint)
	if stopped := ack[record.Stopped](f, j, "n1", record.AckStopped); !stopped.Finished {
		t.Errorf("stopped: %+v", stopped)
	}
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// startEtcdAt returns the address of an etcd that has stopped; its data are in dir.
func startEtcdAt(t *testing.T, dir string) (endpoint string) {
	t.Helper()
	etcd := etcdtest.Start(t, etcdtest.Config(dir))
	etcdtest.Stop(t, etcd)
	return etcd.Endpoint()
}

func TestLeavingTakesTheNodeOutAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stay, leave := f.settings("n1"), f.settings("n2")
	leave.Leave = true
	stay.TTL = time.Minute // a busy machine takes seconds for a moment
	log := &agenttest.Log{}
	stopStaying, stopLeaving := f.agent(stay), f.agentTo(leave, log)
	f.until("n2 to know that nothing runs there", func() bool { return strings.Contains(log.String(), "it is known what earlier agents have left here") })
	token := f.alive("n1")
	stopStaying()
	stopLeaving()
	if !f.absent(record.AliveKey("n2")) {
		t.Error("n2 has left and is still alive")
	}
	if f.absent(record.AliveKey("n1")) {
		t.Error("n1 only went for a moment, and has lost its lease")
	}
	f.agent(stay)
	if now := f.alive("n1"); now != token {
		t.Errorf("n1 came back as another life: token %d, before %d", now, token)
	}
}

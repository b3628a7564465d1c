package host

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// run finds a job's run on a node.
func (f *fixture) run(s settings, j *job) rundir.Run {
	f.Helper()
	runs, _, err := rundir.Scan(filepath.Join(s.Dir, "r"))
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range runs {
		if r.Order.World.Job == j.Job && r.Order.World.Generation == j.Generation {
			return r
		}
	}
	f.Fatalf("no run of %s in %d", j.Job, len(runs))
	return rundir.Run{}
}

// signal sends one to a run's shim.
func (f *fixture) signal(r rundir.Run, s syscall.Signal) {
	f.Helper()
	if err := syscall.Kill(r.Shim.PID, s); err != nil {
		f.Fatal(err)
	}
}

// fenced reports whether a node has given its word in the life with that token.
func (f *fixture) fenced(node string, token int64) bool {
	f.Helper()
	kvs, revision, err := f.store.Range(f.Context(), record.Root)
	if err != nil {
		f.Fatal(err)
	}
	m, err := record.NewMirror(kvs, revision)
	if err != nil {
		f.Fatal(err)
	}
	return m.Node(cluster.NodeID(node)).Fencing.Value.AliveRev == token
}

// heard waits until the shim of a run has a deadline, by its own word.
func (f *fixture) heard(r rundir.Run) int64 {
	f.Helper()
	conn, err := shim.Dial(r.Dir)
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Close()
	for report := range conn.Reports() {
		if report.Deadline != 0 && report.Deadline != fence.Never {
			return report.Deadline
		}
	}
	f.Fatal("the shim hung up without a deadline")
	return 0
}

// A second node joins while a shim of the first one hangs. As long as that shim
// has no deadline, the leader must not count on its fencing.
func TestTheFencingRecordWaitsForAShimThatHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	token := f.alive("n1")
	j := f.job("hangs", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	worker := ack[record.Started](f, j, "n1", record.AckStarted).Workers[0]
	hanging := f.run(s, j)
	f.signal(hanging, syscall.SIGSTOP)
	f.agent(f.settings("n2"))

	// What the agent does with another job shows what it knows, and that it has gone on since.
	k := f.job("other", sleeper(), map[string]int{"n1": 2}, "n1")
	k.Members[0].Devices = k.Members[0].Devices[1:]
	f.start(k)
	ack[record.Started](f, k, "n1", record.AckStarted)
	f.heard(f.run(s, k))
	f.commit(record.Delete(record.PermitKey(k.Job, 1)))
	ack[record.Stopped](f, k, "n1", record.AckStopped)
	if f.fenced("n1", token) {
		t.Error("the node has given its word, and one of its shims knows of no deadline")
	}
	f.signal(hanging, syscall.SIGCONT)
	f.until("the node's word", func() bool { return f.fenced("n1", token) })
	if !lives(worker) {
		t.Error("the worker has died of it")
	}
}

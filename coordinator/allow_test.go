package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// Many requests at once, over several nodes, are counted together: what is on its way counts.
func TestLimitsCountWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	l := newLab()
	if err := l.userLimits(words{named: map[string]string{"live": "5"}}); err != nil {
		t.Fatal(err)
	}
	var ops []record.Op
	for i := range 12 {
		name := fmt.Sprintf("j%02d", i)
		spec := cluster.Spec{Name: name, Command: []string{"x"}, Workdir: "/w", CheckpointDir: "/c"}
		id := cluster.JobID(name + "-aaaaaa")
		ops = append(ops, record.Put(record.RequestKey(cluster.NodeID(fmt.Sprint("n", i%3)), name), record.Request{
			Kind: record.SubmitRequest, Job: id, Spec: &spec, At: l.now, Owner: cluster.Owner{UID: 1000, User: "ann"},
		}))
	}
	l.commit(ops...)
	l.holding = true
	l.watch() // all are looked at before any has landed
	l.holding = false
	for _, txn := range l.waiting {
		l.execute(txn)
	}
	l.watch()
	phases := map[cluster.Phase]int{}
	for i := range 12 {
		phases[recorded[record.State](l.mem, record.StateKey(cluster.JobID(fmt.Sprintf("j%02d-aaaaaa", i)))).Phase]++
	}
	if phases[cluster.Queued] != 5 || phases[cluster.Failed] != 7 {
		t.Errorf("%v", phases)
	}
}

// Of what a user floods the cluster with, so much is kept and no more, however much
// there was: neither the records nor what the leader remembers of them grow.
func TestAFloodLeavesNoMoreThanIsKept(t *testing.T) {
	t.Parallel()
	const kept = 20
	l := newLab()
	if err := l.userLimits(words{named: map[string]string{"live": "5", "kept": fmt.Sprint(kept)}}); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := l.do(fmt.Sprintf("submit f%03d", i)); err != nil {
			t.Fatal(err)
		}
		l.answers()
	}
	kvs, _ := l.mem.Range(record.JobsPrefix)
	jobs := map[string]bool{}
	for _, kv := range kvs {
		jobs[kv.Key[:len(record.JobsPrefix)+len("f000-aaaaaa")]] = true
	}
	if len(jobs) != kept+5 {
		t.Errorf("%d jobs are left of the flood, want %d that wait and %d that are kept", len(jobs), 5, kept)
	}
	if kvs, _ := l.mem.Range(record.NodesPrefix); len(kvs) != 0 {
		t.Errorf("requests are left: %d", len(kvs))
	}
}

// One job over the limit costs one job, however long etcd takes to answer, and as
// many as are over it when nothing is answered at all.
func TestASlowAnswerCostsNoMoreJobs(t *testing.T) {
	t.Parallel()
	l := newLab()
	if err := l.userLimits(words{named: map[string]string{"live": "1", "kept": "10"}}); err != nil {
		t.Fatal(err)
	}
	play(t, l, "submit live")
	for i := range 10 { // refused: they have ended
		play(t, l, fmt.Sprintf("submit f%02d", i))
	}
	l.answers()
	l.holding = true
	for over := range 2 {
		play(t, l, fmt.Sprintf("submit more%d", over))
		for _, txn := range l.waiting { // its admission lands, what follows does not
			if strings.HasPrefix(txn.ID, "admit ") {
				l.step(coordinator.Outcome{Outcome: l.mem.Commit(txn)})
			}
		}
		for range 5 {
			l.now = l.now.Add(time.Second)
			l.step(coordinator.Tick{})
		}
	}
	trims := 0
	for _, txn := range l.waiting {
		if strings.HasPrefix(txn.ID, "trim ") {
			trims++
		}
	}
	if trims != 2 {
		t.Errorf("%d jobs are deleted of 12 where 10 are kept: want 2", trims)
	}
}

// A cluster that lets no job gain rights lets none, whatever its owner has said, and
// the job's record says so.
func TestTheClusterForbidsNewRights(t *testing.T) {
	t.Parallel()
	for _, forced := range []bool{true, false} {
		l := newLab()
		l.noPrivs = forced
		l.lead(0)
		play(t, l, "submit j")
		if spec := recorded[record.Submitted](l.mem, record.SpecKey("j-aaaaaa")); spec.NoNewPrivs != forced {
			t.Errorf("forced %v: %+v", forced, spec)
		}
	}
}

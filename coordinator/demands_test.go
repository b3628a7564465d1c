package coordinator_test

import (
	"fmt"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// What nodes refuse is derived once for all jobs that demand the same, until a node
// changes: with thousands of both, the product is more than a Step can look at.
func TestDemandsCostNothing(t *testing.T) {
	t.Parallel()
	const nodes, jobs, kinds = 20, 200, 2
	l := newLab()
	l.holding = true
	for i := range nodes {
		model := fmt.Sprintf("m%d", i%kinds)
		if err := l.node(words{plain: []string{fmt.Sprintf("n%d", i)}, named: map[string]string{"gpus": "1", "model": model}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range jobs {
		name := fmt.Sprintf("q%d", i)
		spec := cluster.Spec{
			Name: name, Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c",
			MinWorkers: 16, MaxWorkers: 16, BatchSize: cluster.BatchSize{Min: 64},
			Where: cluster.Where{DeviceModel: fmt.Sprintf("m%d", i%kinds)},
		}.WithDefaults()
		l.commit(
			record.Put(record.SpecKey(jobID(name)), record.Submitted{Spec: spec, ID: jobID(name), At: l.now, Owner: cluster.Owner{UID: 1000, User: "ann"}}),
			record.Put(record.WantedKey(jobID(name)), record.Wanted{Run: true, At: l.now}),
			record.Put(record.StateKey(jobID(name)), record.State{Phase: cluster.Queued, Reason: reason.Of(reason.New(reason.Accepted)), Since: l.now}),
		)
	}
	asked := func(what string, change func()) int {
		before := l.c.NodesAsked()
		change()
		n := l.c.NodesAsked() - before
		t.Logf("%s: %d looks at nodes", what, n)
		return n
	}
	if n := asked("all is new", l.reload); n == 0 || n > kinds*nodes {
		t.Errorf("a listing took %d looks at nodes, want 1 to %d: each node for each demand", n, kinds*nodes)
	}
	if n := asked("a job is gone", func() {
		l.commit(record.Put(record.StateKey(jobID("q0")), record.State{Phase: cluster.Stopped, Since: l.now}))
		l.watch()
	}); n != 0 {
		t.Errorf("a job's change took %d looks at nodes, want none", n)
	}
	if n := asked("a node changes", func() {
		if err := l.cordon(words{plain: []string{"n1"}}); err != nil {
			t.Fatal(err)
		}
		l.watch()
	}); n == 0 || n > kinds*nodes {
		t.Errorf("a node's change took %d looks at nodes, want 1 to %d", n, kinds*nodes)
	}
}

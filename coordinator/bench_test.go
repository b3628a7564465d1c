package coordinator_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// BenchmarkStep measures a Step in a cluster of 40 nodes with 8 devices each, on
// which 160 of 300 jobs run and the others wait.
func BenchmarkStep(b *testing.B) {
	l := newLab()
	l.holding = true // at first: everything comes up at once
	for i := range 40 {
		if err := l.node(words{plain: []string{fmt.Sprintf("n%d", i+1)}, named: map[string]string{"gpus": "8"}}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 400 {
		name := fmt.Sprintf("j%d-aaaaaa", i)
		if err := l.submit(words{plain: []string{name}, named: map[string]string{"workers": "2..8"}}); err != nil {
			b.Fatal(err)
		}
	}
	l.holding = false
	l.reload()
	l.lines = nil
	inventory, _ := l.mem.Get(record.InventoryKey("n1"))
	b.ResetTimer()
	for b.Loop() {
		l.commit(record.Op{Key: inventory.Key, Value: inventory.Value}) // what draws everything anew
		changes, err := l.mem.Changes(l.watched+1, record.Root)
		if err != nil {
			b.Fatal(err)
		}
		l.watched = l.mem.Revision()
		l.now = l.now.Add(time.Millisecond)
		l.c.Step(l.now, coordinator.Changed{Changes: changes})
	}
}

// crowd is a cluster of nodes with 8 devices each, all of them in use by as many
// jobs, and more jobs that wait in the queue for devices which the cluster lacks.
func crowd(b testing.TB, nodes, queued int) *lab { return crowded(b, nodes, queued, 1<<14) }

// crowded is a crowd whose queued jobs need so many devices each.
func crowded(b testing.TB, nodes, queued, need int) *lab {
	b.Helper()
	l := newLab()
	l.holding, l.thinks = true, true
	for i := range nodes {
		n := fmt.Sprintf("n%d", i+1)
		if err := l.node(words{plain: []string{n}, named: map[string]string{"gpus": "8"}}); err != nil {
			b.Fatal(err)
		}
		id := jobID(fmt.Sprintf("r%d", i+1))
		var devices []cluster.DeviceID
		for d := range 8 {
			devices = append(devices, cluster.DeviceID(fmt.Sprintf("%s%c", n, 'a'+d)))
		}
		alive, _ := l.mem.Get(record.AliveKey(cluster.NodeID(n)))
		world := cluster.World{Job: id, Generation: 1, BatchSize: 64, Members: []cluster.Member{
			{Node: cluster.NodeID(n), AliveRev: alive.CreateRevision, Devices: devices},
		}}
		l.admitted(id, record.State{Phase: cluster.Running, Generation: 1, Since: l.now}, 8)
		l.commit(
			record.Put(record.PlanKey(id, 1), record.Plan{World: world, At: l.now}),
			record.Put(record.PermitKey(id, 1), record.Permit{At: l.now}),
			record.Put(record.GrantKey(cluster.NodeID(n), id), record.Grant{Generation: 1, Devices: devices}),
			record.Put(record.AckKey(cluster.NodeID(n), id, 1, record.AckStarted), record.Started{ExecedAt: l.now}),
		)
	}
	for i := range queued {
		l.now = l.now.Add(time.Millisecond)
		l.admitted(jobID(fmt.Sprintf("q%d", i+1)), record.State{Phase: cluster.Queued, Reason: reason.Of(reason.New(reason.Accepted)), Since: l.now}, need)
	}
	l.reload()
	for _, t := range l.waiting { // every job learns why it waits
		l.mem.Commit(t)
	}
	l.lead(0)
	l.lines, l.waiting = nil, nil
	return l
}

// admitted writes a job that needs so many devices as the leader would have.
func (l *lab) admitted(id cluster.JobID, s record.State, need int) {
	name, _, _ := strings.Cut(string(id), "-")
	spec := cluster.Spec{
		Name: name, Command: []string{"train"}, Workdir: "/w", CheckpointDir: "/c",
		MinWorkers: need, MaxWorkers: need, BatchSize: cluster.BatchSize{Min: 1 << 14},
	}.WithDefaults()
	l.commit(
		record.Put(record.SpecKey(id), record.Submitted{Spec: spec, ID: id, At: l.now, Owner: cluster.Owner{UID: 1000, User: "ann"}}),
		record.Put(record.WantedKey(id), record.Wanted{Run: true, At: l.now}),
		record.Put(record.StateKey(id), s),
	)
}

// A job that leaves the queue costs those behind it nothing: only the one that
// comes to its front is told more closely why it waits.
func TestQueueChangeCostsNothing(t *testing.T) {
	l := crowd(t, 2, 300)
	l.commit(record.Put(record.StateKey(jobID("q1")), record.State{Phase: cluster.Stopped, Since: l.now}))
	l.watch()
	var sent []string
	for _, txn := range l.waiting {
		sent = append(sent, describe(txn, l.now))
	}
	want := `txn wait q101-aaaaaa: queued g0 "needs at least 16384 devices; the nodes that can run it have 16; it never fits the cluster as it is: the largest world that fits is of 16"`
	if len(sent) != 1 || sent[0] != want {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(sent, "\n"), want)
	}
}

// BenchmarkQueueChange measures what it costs a crowd that the first job of the
// queue leaves it: the time of the Step that sees it, and the transactions that it sends.
func BenchmarkQueueChange(b *testing.B) { benchmarkQueue(b, crowd(b, 1_000, 10_000)) }

// BenchmarkDecidedQueueChange is the same where the jobs of the queue would fit the
// cluster, and a decision has granted them nothing.
func BenchmarkDecidedQueueChange(b *testing.B) {
	l := crowded(b, 1_000, 10_000, 8)
	l.decide()
	var outcomes []coordinator.Event
	for _, t := range l.waiting {
		outcomes = append(outcomes, coordinator.Outcome{Outcome: l.mem.Commit(t)})
	}
	l.waiting = nil
	l.c.Step(l.now, outcomes...)
	l.watch()
	benchmarkQueue(b, l)
}

func benchmarkQueue(b *testing.B, l *lab) {
	b.Helper()
	txns, i := 0, 0
	b.ResetTimer()
	for b.Loop() {
		i++
		id := jobID(fmt.Sprintf("q%d", i))
		l.commit(record.Put(record.StateKey(id), record.State{Phase: cluster.Stopped, Since: l.now}))
		changes, err := l.mem.Changes(l.watched+1, record.Root)
		if err != nil {
			b.Fatal(err)
		}
		l.watched = l.mem.Revision()
		txns += len(l.c.Step(l.now, coordinator.Changed{Changes: changes}).Txns)
	}
	b.ReportMetric(float64(txns)/float64(i), "txns/op")
}

// BenchmarkNodeChange is the same for a device that turns out unhealthy, and back.
func BenchmarkNodeChange(b *testing.B) {
	l := crowd(b, 1_000, 10_000)
	key := record.InventoryKey("n1")
	inv := recorded[record.Inventory](l.mem, key)
	txns, i := 0, 0
	b.ResetTimer()
	for b.Loop() {
		i++
		inv.Devices[0].Model = strconv.Itoa(i)
		l.commit(record.Put(key, inv))
		changes, err := l.mem.Changes(l.watched+1, record.Root)
		if err != nil {
			b.Fatal(err)
		}
		l.watched = l.mem.Revision()
		l.now = l.now.Add(time.Millisecond)
		txns += len(l.c.Step(l.now, coordinator.Changed{Changes: changes}).Txns)
	}
	b.ReportMetric(float64(txns)/float64(i), "txns/op")
}

// BenchmarkQuestionOfMeasuredJobs measures a Step that asks about 300 jobs of which the
// speeds of 160 are known: what was learnt of records that have not changed is not learnt again.
func BenchmarkQuestionOfMeasuredJobs(b *testing.B) {
	l := newLab()
	l.holding, l.timed = true, true
	l.lead(0)
	for i := range 40 {
		if err := l.node(words{plain: []string{fmt.Sprintf("n%d", i+1)}, named: map[string]string{"gpus": "8"}}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 300 {
		name := fmt.Sprintf("j%d-aaaaaa", i)
		if err := l.submit(words{plain: []string{name}, named: map[string]string{"workers": "2..8", "steps": "100000"}}); err != nil {
			b.Fatal(err)
		}
		s := record.Speed{Generation: 1, At: l.now, Step: 10, Samples: -1}
		for k := 2; k <= 8; k *= 2 {
			s.Points = append(s.Points, record.SpeedPoint{Workers: k, Nodes: 1, Batch: 64, StepsPerSecond: float64(k), Windows: 9, Generation: 1})
		}
		l.commit(record.Put(record.SpeedKey(cluster.JobID(name)), s))
	}
	l.holding = false
	l.watch()
	l.answers()
	for b.Loop() {
		l.now = l.now.Add(10 * time.Second)
		l.step(coordinator.Tick{})
		l.answers()
	}
}

package coordinator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// fails lets a node acknowledge a failure as an agent would that bounds nothing.
func (l *lab) fails(t *testing.T, f record.Failed) {
	t.Helper()
	f.At = l.now
	value, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	l.commit(record.Op{Key: record.AckKey("n1", "j-aaaaaa", 1, record.AckFailed), Value: value})
	l.watch()
}

const runs = `node n1 gpus=2
	submit j
	started j`

func stateOf(l *lab) record.State { return recorded[record.State](l.mem, record.StateKey("j-aaaaaa")) }

// A node refuses a job with a reason that is nearly as large as etcd takes. The halt
// that quotes it lands, and so does a stop at once; the devices are free again.
func TestHugeReasonKeepsNoDevices(t *testing.T) {
	t.Parallel()
	for _, f := range []record.Failed{
		{Kind: record.NodeRefused, Rank: -1, Reason: "not in PATH " + strings.Repeat("/bin:", 200_000)},
		{Kind: record.WorkerFailed, Reason: strings.Repeat("\x01", 150_000)},
		{Kind: record.WorkerFailed, Reason: "exit status 1", LogTail: []string{strings.Repeat("ü", 500_000), strings.Repeat("last words ", 10_000)}},
		{Kind: record.NoSpace, Rank: -1, Reason: strings.Repeat("full ", 200_000)},
	} {
		l := newLabWithout(0)
		l.events = true
		l.lead(0)
		play(t, l, runs)
		l.fails(t, f)
		if s := stateOf(l); s.Phase != cluster.Halting || len(s.Reason) > record.MaxReason {
			t.Errorf("%s: %s, because of %d bytes: %.60s", f.Kind, s.Phase, len(s.Reason), s.Reason)
		}
		play(t, l, `stop j now
			stopped j
			submit k workers=2..2`)
		if s := stateOf(l); s.Phase != cluster.Stopped {
			t.Errorf("%s: %s: %.60s", f.Kind, s.Phase, s.Reason)
		}
		if s := recorded[record.State](l.mem, record.StateKey("k-aaaaaa")); s.Phase != cluster.Starting {
			t.Errorf("%s: the next job is %s: %s", f.Kind, s.Phase, s.Reason)
		}
	}
}

// etcd takes less than it is known to: what a job's transactions say is cut short, and all of them land.
func tooMuchForEtcd(t *testing.T, without coordinator.Rule) bool {
	t.Helper()
	l := newLab()
	l.events = true
	l.lead(without)
	play(t, l, runs)
	l.fails(t, record.Failed{Kind: record.WorkerFailed, Reason: strings.Repeat("no ", 400), LogTail: []string{strings.Repeat("why ", 200)}})
	l.mem.MaxTxnBytes = 1400
	l.fails(t, record.Failed{Kind: record.WorkerFailed}) // something changes, and it looks again
	play(t, l, `stop j now
		stopped j
		advance 1s`)
	return stateOf(l).Phase != cluster.Stopped
}

// One transaction that was too large does not silence a job for good: its events are
// told again after a while.
func TestAJobIsNotSmallForGood(t *testing.T) {
	t.Parallel()
	l := newLab()
	l.events = true
	l.lead(0)
	play(t, l, runs)
	most := l.mem.MaxTxnBytes
	l.mem.MaxTxnBytes = 1400
	l.fails(t, record.Failed{Kind: record.WorkerFailed, Reason: strings.Repeat("no ", 400)})
	l.mem.MaxTxnBytes = most
	if s := stateOf(l); s.Phase != cluster.Halting || len(s.Reason) > record.SmallReason+100 {
		t.Fatalf("%s, because of %d bytes: %s", s.Phase, len(s.Reason), s.Reason)
	}
	told := func() (n int) {
		kvs, _ := l.mem.Range(record.EventsPrefix)
		return len(kvs)
	}
	before := told()
	play(t, l, `stopped j
		advance 1s`)
	if n := told() - before; n != 0 {
		t.Errorf("%d events were told at once", n)
	}
	play(t, l, `advance 10m
		stop j now`)
	if n := told() - before; n == 0 {
		t.Error("no event was told after a while")
	}
}

// A request that etcd has just taken may be too large with what admitting it adds.
func TestSubmitThatCannotBeAdmittedFails(t *testing.T) {
	t.Parallel()
	l := newLabWithout(0)
	play(t, l, "node n1 gpus=2")
	spec := cluster.Spec{
		Name: "j", Command: []string{"train", strings.Repeat("x", 1_400_000)}, Workdir: "/w", CheckpointDir: "/c/" + strings.Repeat("x", 10_000),
		Env: map[string]string{"A": strings.Repeat("a", 50_000)},
	}
	l.commit(record.Put(record.RequestKey("n1", "r"), record.Request{Kind: record.SubmitRequest, Job: "j-aaaaaa", Spec: &spec, At: l.now}))
	l.watch()
	kept := recorded[record.Submitted](l.mem, record.SpecKey("j-aaaaaa"))
	text, err := json.Marshal(kept)
	if s := stateOf(l); s.Phase != cluster.Failed || !strings.Contains(s.Reason.Arg(reason.SpecInvalid, "said"), "command has 1400005 bytes: at most 131072") {
		t.Errorf("%s: %s", s.Phase, s.Reason)
	}
	if err != nil || len(text) > 4<<10 || kept.Name != "j" || kept.Command[0] != "train" {
		t.Errorf("%v, %d bytes are kept of it: %.200s", err, len(text), text)
	}
}

// A world of so many nodes that its plan is more than etcd takes does not hold its devices in silence.
func TestPlanThatIsTooLargeSaysSo(t *testing.T) {
	t.Parallel()
	l := newLab()
	l.limit, l.mem.MaxTxnOps = 1<<16, 1<<16
	l.lead(0)
	var ops []record.Op
	for i := range 24 {
		n := cluster.NodeID("n" + string(rune('a'+i)))
		inv := record.Inventory{}
		for d := range 128 {
			id := cluster.DeviceID(string(n) + fmt.Sprint(d) + strings.Repeat("x", 1000))
			inv.Devices = append(inv.Devices, cluster.Device{ID: id, Health: cluster.Healthy})
		}
		ops = append(ops, record.Put(record.AliveKey(n), record.Alive{Addr: "h", Ports: record.Ports{First: 7000, Count: 8}}))
		l.commit(record.Put(record.InventoryKey(n), inv))
	}
	l.commit(ops...)
	l.watch()
	play(t, l, `want j=2048
		submit j workers=1..2048 batch=2048`)
	if s := stateOf(l); s.Phase != cluster.Queued || !s.Reason.Has(reason.PlanTooLarge) {
		t.Errorf("%s: %s", s.Phase, s.Reason)
	}
}

// users live=2 kept=1 submits=9 bytes=100000 priority=50 exempt=7: a leader that keeps users to this takes over.
func (l *lab) userLimits(w words) error {
	limits := record.Limits{
		LiveJobs: w.number("live", 100), KeptJobs: w.number("kept", 100), Submits: w.number("submits", 100),
		Bytes: int64(w.number("bytes", 1<<20)), Priority: w.number("priority", 50), Connections: 9, Exempt: []uint32{uint32(w.number("exempt", 7))},
	}
	l.users = &limits
	l.lead(0)
	return nil
}

package coordinator_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// A job that a restored etcd does not know keeps nothing of what it was granted: another
// one starts on its devices at once, not only after the next interval.
func TestAJobThatIsLostWithEtcdHoldsNoDevices(t *testing.T) {
	t.Parallel()
	l := newLab()
	play(t, l, "node n1 gpus=2\nsubmit k workers=2..2\nstarted k\nadvance 1m")
	backup := l.mem.Backup()
	play(t, l, "stop k now\nstopped k\nsubmit j workers=2..2")
	if !slices.ContainsFunc(l.answers(), func(s string) bool { return strings.HasPrefix(s, "txn start j-aaaaaa") }) {
		t.Fatal("the job that will be lost has not started")
	}
	l.mem.Restore(backup)
	l.reload()
	l.answers()
	play(t, l, "stop k now\nstopped k\nsubmit i workers=2..2")
	if said := l.answers(); !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "txn start i-aaaaaa") }) {
		t.Errorf("it does not start: %s", strings.Join(said, "\n"))
	}
	if grants := recorded[record.Grant](l.mem, record.GrantKey("n1", "i-aaaaaa")); len(grants.Devices) != 2 {
		t.Errorf("granted: %+v", grants)
	}
}

// A transaction that was on its way lands in a restored etcd, where revisions leap. From
// then on the leader decides nothing, until a listing has come that has reached what it wrote.
func TestARevisionThatLeapsIsOfARestoredEtcd(t *testing.T) {
	t.Parallel()
	l := newLab()
	play(t, l, "node n1 gpus=2")
	l.holding = true
	play(t, l, "submit k workers=1..1")
	if len(l.waiting) != 1 {
		t.Fatalf("held: %v", l.waiting)
	}
	late := l.waiting[0]
	l.mem.Restore(l.mem.Backup())
	before, old := l.mem.Range(record.Root)
	out := l.mem.Commit(late)
	if out.Result != record.Applied {
		t.Fatalf("%s: %v", late.ID, out.Result)
	}
	for _, c := range []struct {
		what   string
		event  coordinator.Event
		reload bool
	}{
		{"the outcome", coordinator.Outcome{Outcome: out}, true},
		{"time", coordinator.Tick{}, false},
		{"a listing from before the outcome", coordinator.Loaded{KVs: before, Revision: old}, true},
	} {
		if fx := l.c.Step(l.now, c.event); fx.Reload != c.reload || len(fx.Txns) > 0 || fx.Ask != nil {
			t.Errorf("upon %s: reload %t, sent %v, asked %v", c.what, fx.Reload, fx.Txns, fx.Ask)
		}
	}
	l.holding = false
	l.reload()
	if got := recorded[record.State](l.mem, record.StateKey("k-aaaaaa")); got.Phase != "starting" {
		t.Errorf("after a new listing the job is %q", got.Phase)
	}
}

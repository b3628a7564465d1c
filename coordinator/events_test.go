package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// However much happens, the events take up their ring and no more, and are
// numbered on across leaders, so that a reader knows what is missing.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab()
	do := func(line string) {
		if err := l.do(line); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"events", "node n1 gpus=1", "submit j workers=1..8"} {
		do(line)
	}
	const many = record.KeptEvents + 100
	for i := range many {
		do(fmt.Sprintf("scale j max=%d", 1+i%8))
		if i%1000 == 0 {
			do("failover")
		}
	}
	kvs, _ := l.mem.Range(record.EventsPrefix)
	if len(kvs) != record.KeptEvents {
		t.Errorf("%d events are kept, want %d", len(kvs), record.KeptEvents)
	}
	all, rev := l.mem.Range(record.Root)
	m, err := record.NewMirror(all, rev)
	if err != nil {
		t.Fatal(err)
	}
	told := m.Events(0)
	last := told[len(told)-1].Seq
	seq := last - record.KeptEvents
	for _, e := range told {
		if e.Node != "" { // the node's own
			continue
		}
		if seq++; e.Seq != seq {
			t.Fatalf("event %d follows event %d", e.Seq, seq-1)
		}
	}
	if last < many {
		t.Errorf("the last event has number %d after more than %d", last, many)
	}
	if half := m.Events(told[len(told)/2].Revision); len(half) != len(told)-len(told)/2-1 {
		t.Errorf("%d events after that in the middle of %d", len(half), len(told))
	}
	if warn := strings.Join(l.answers(), "\n"); strings.Contains(warn, "reload") {
		t.Error("something was refused")
	}
}

// A candidate that has stood since before the present leader told of itself
// tells of itself all the same when it leads.
func TestEarlyCandidateIsTold(t *testing.T) {
	t.Parallel()
	l := newLab()
	key := record.LeaderPrefix + "early"
	l.commit(record.Put(key, record.Leader{Node: "early"}))
	kv, _ := l.mem.Get(key)
	if err := l.do("events"); err != nil {
		t.Fatal(err)
	}
	l.answers()
	l.c = coordinator.New(coordinator.Config{Token: coordinator.Token{Key: key, Mod: kv.ModRevision}, Policy: "script", Timeless: true, Interval: time.Second})
	for range 2 { // the second time there is nothing left to tell
		l.reload()
	}
	if got := strings.Join(l.answers(), "\n"); got != `txn report : event 2 leader by=early "leads after lab"` {
		t.Errorf("it tells %s", got)
	}
}

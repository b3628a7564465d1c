package host

import (
	"context"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// writer is a node that only writes, with its alive key in etcd.
func (f *fixture) writer() *node {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	n := bareNode(ctx, Config{Node: "n1", Log: quiet()}, f.store)
	f.Cleanup(func() { cancel(); n.Wait() })
	f.commit(record.Put(record.AliveKey("n1"), record.Alive{}))
	n.session.presence.aliveRev = f.awaitKV(record.AliveKey("n1"), func(record.KV) bool { return true }).CreateRevision
	return n
}

func ackLane(j cluster.JobID) loop.Lane {
	return loop.Lane{Of: record.JobGen{Job: j, Generation: 1}, What: agent.AckLane}
}

// A write whose answer was lost is found to have happened, and not taken for news.
func TestRecordThatIsThereAlreadyIsRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.writer()
	key := record.AckKey("n1", "j", 1, record.AckFailed)
	f.commit(record.Put(key, record.Failed{Reason: "the first word"}))
	n.writer.create(ackLane("j"), "ack", []record.Op{record.Put(key, record.Failed{Reason: "the second"})}, func(err error) { t.Error(err) })
	if !n.Busy(ackLane("j")) {
		t.Error("the lane is free while the write is under way")
	}
	(<-n.Events())()
	if got := n.records.self().Ack("j", 1, "").Failed; !got.Exists() || got.Value.Reason != "the first word" {
		t.Errorf("read %+v", got)
	}
	if n.Busy(ackLane("j")) {
		t.Error("the lane is still taken")
	}
}

func TestAnotherLifesWriteDoesNotLand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.writer()
	n.session.presence.aliveRev--
	key := record.AckKey("n1", "j", 1, record.AckStopped)
	n.writer.create(ackLane("j"), "ack", []record.Op{record.Put(key, record.Stopped{})}, nil)
	(<-n.Events())()
	if !f.absent(key) || n.records.self().Ack("j", 1, "").Stopped.Exists() {
		t.Error("an acknowledgement of another life of the node was written")
	}
}

func TestRecordThatEtcdNeverTakesIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.writer()
	var refused error
	huge := record.Saved{Dir: strings.Repeat("x", 4<<20)}
	n.writer.create(ackLane("j"), "saved", []record.Op{record.Put(record.SavedKey("n1", "j", 1, 5), huge)}, func(err error) { refused = err })
	(<-n.Events())()
	if refused == nil {
		t.Error("a record of 4 MiB was accepted, or is still being tried")
	}
}

func TestGossipTellsWhoIsThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.settings("n1"), f.settings("n2")
	stop := f.agent(one)
	f.agent(two)
	states := func() map[string]string {
		nodes, err := apiNodes(f, two)
		if err != nil {
			return nil
		}
		return nodes
	}
	f.until("n2 to hear of n1", func() bool { return states()["n1"] == "alive" })
	stop()
	f.until("n2 to miss n1", func() bool { return states()["n1"] == "dead" })
	if f.absent(record.AliveKey("n1")) {
		t.Error("n1 has lost its lease, and was only going to be away for a moment")
	}
}

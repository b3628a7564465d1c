package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store/server"
)

// etcd is restored from a backup that is older than a generation which runs here,
// and a generation of its number is planned again. The processes of the lost one are
// ended, acknowledged as nothing, and what they have saved is not offered.
func TestRestoredEtcd(t *testing.T) {
	t.Parallel()
	f := &fixture{T: t, dir: t.TempDir()}
	etcdDir := t.TempDir()
	f.endpoint = startEtcdAt(t, etcdDir)
	etcd := startEtcd(t, etcdDir, f.endpoint)
	f.connect()
	s := f.settings("n1")
	f.agent(s)
	backup := filepath.Join(f.dir, "backup")
	if _, err := server.NewAdmin(f.store).Snapshot(t.Context(), backup); err != nil {
		t.Fatal(err)
	}

	script := `[ -e once ] || { d="$BELLOWS_CHECKPOINT_DIR/step-9"; mkdir -p "$d"; echo lost > "$d/model"; : > "$d/COMPLETE"; : > once; }
		trap 'exit 143' TERM; while :; do sleep 0.02; done`
	j := f.job("j", []string{"/bin/sh", "-c", script}, map[string]int{"n1": 1}, "n1")
	j.Nonce = "lost"
	f.start(j)
	old := ack[record.Started](f, j, "n1", record.AckStarted)
	if offer := await[record.Offer](f, record.OfferKey("n1", j.Job, 1, 9)); offer.Nonce != "lost" || old.Nonce != "lost" {
		t.Errorf("offer %+v, started %+v", offer, old)
	}

	if err := etcd.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "etcd")
	if err := server.Restore(server.Config{DataDir: restored, Client: f.endpoint, Name: "test", NoFsync: true}, backup); err != nil {
		t.Fatal(err)
	}
	startEtcd(t, restored, f.endpoint)
	again := f.job("j", j.Spec.Command, map[string]int{"n1": 1}, "n1")
	again.Nonce = "new"
	f.start(again)
	// What the agent still believed when etcd came back may be there before.
	kv := f.awaitKV(record.AckKey("n1", j.Job, 1, record.AckStarted), func(kv record.KV) bool { return nonceOf(kv.Value) == "new" })
	var started record.Started
	if err := json.Unmarshal(kv.Value, &started); err != nil || len(started.Workers) != 1 || started.Workers[0].PID == old.Workers[0].PID {
		t.Errorf("started %+v, in the lost timeline %+v", started, old)
	}
	if lives(old.Workers[0]) {
		t.Error("the worker of the lost timeline lives")
	}
	f.haltAs(again, nil, true)
	if stopped := ack[record.Stopped](f, again, "n1", record.AckStopped); stopped.Nonce != "new" {
		t.Errorf("stopped %+v", stopped)
	}
	if kv, exists, err := f.store.Get(t.Context(), record.OfferKey("n1", j.Job, 1, 9)); err != nil || exists && nonceOf(kv.Value) != "lost" {
		t.Errorf("what the lost timeline has saved is offered: %s, %v", kv.Value, err)
	}
	root := filepath.Join(f.dir, "ck", "j")
	if _, err := os.Stat(filepath.Join(root, layout.Generation(1, "lost"), "step-9", "COMPLETE")); err != nil {
		t.Errorf("what the lost timeline has saved is gone: %v", err)
	}
}

// An acknowledgement of the lost timeline that was under way lands after the
// restore: it is replaced, and told apart until then.
func TestAcknowledgementOfALostTimelineIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.writer()
	jg := record.JobGen{Job: "j", Generation: 1}
	world := cluster.World{Job: "j", Generation: 1, Nonce: "new", Members: []cluster.Member{{Node: "n1"}, {Node: "n2", FirstRank: 1}}}
	f.commit(record.Put(record.PlanKey("j", 1), record.Plan{World: world}))
	for _, node := range []cluster.NodeID{"n1", "n2"} {
		f.commit(
			record.Put(record.AckKey(node, "j", 1, record.AckStarted), record.Started{Nonce: "lost"}),
			record.Put(record.AckKey(node, "j", 1, record.AckFailed), record.Failed{Nonce: "lost"}),
			record.Put(record.AckKey(node, "j", 1, record.AckStopped), record.Stopped{Nonce: "lost"}),
			record.Put(record.SavedKey(node, "j", 1, 5), record.Saved{Nonce: "lost"}),
			record.Put(record.OfferKey(node, "j", 1, 5), record.Offer{Nonce: "lost"}),
		)
	}
	reread := func() agent.Goal {
		kvs, revision, err := f.store.Range(t.Context(), record.Root)
		if err != nil {
			t.Fatal(err)
		}
		n.records.list("all", []string{record.Root}, kvs, revision)
		return n.goals.goal(jg)
	}
	g := reread()
	if a := g.Acks; a.Started.Exists() || a.Failed.Exists() || a.Stopped.Exists() || len(g.Saved)+len(g.Offers) > 0 {
		t.Errorf("of the lost timeline: %+v", g)
	}
	if p := g.Peers[0]; p.Failed != nil || p.Gone || len(p.Saved) > 0 || p.Offered != 0 {
		t.Errorf("of the lost timeline: %+v", p)
	}
	if len(n.goals.peerPrefixes(jg)) == 0 {
		t.Error("its peers are followed no more")
	}
	key := record.AckKey("n1", "j", 1, record.AckStarted)
	n.writer.create(ackLane("j"), "ack", []record.Op{record.Put(key, record.Started{Nonce: "new"})}, func(err error) { t.Error(err) })
	(<-n.Events())()
	if g = n.goals.goal(jg); g.Acks.Started.Value.Nonce != "new" {
		t.Errorf("acknowledged %+v", g.Acks.Started)
	}
	n.writer.create(ackLane("j"), "ack", []record.Op{record.Put(key, record.Started{Nonce: "new", Containment: "twice"})}, func(err error) { t.Error(err) })
	(<-n.Events())()
	kv, _, err := f.store.Get(t.Context(), key)
	var there record.Started
	if err != nil || json.Unmarshal(kv.Value, &there) != nil || there.Containment != "" {
		t.Errorf("an acknowledgement was replaced by another of its own: %s, %v", kv.Value, err)
	}
	g.Plan = nil
	f.commit(record.Delete(record.PlanKey("j", 1)))
	if g = reread(); !g.Acks.Stopped.Exists() || g.Plan != nil {
		t.Errorf("without a plan nothing is left to be forgotten: %+v", g)
	}
}

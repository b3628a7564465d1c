package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// manyFiles is more than a record of etcd's lists, and few enough for a test.
const manyFiles = "20000"

// soleOffer waits until rank 0's node has offered a step, and checks the checkpoint: all is listed, and nothing else is left.
func (f *fixture) soleOffer(j *job, files, entries int) record.Offer {
	f.Helper()
	var offer record.Offer
	f.until("an offer", func() bool {
		kvs, _, err := f.store.Range(f.Context(), record.OfferPrefix("n1", j.Job, 1))
		return err == nil && len(kvs) > 0 && json.Unmarshal(kvs[len(kvs)-1].Value, &offer) == nil
	})
	text, err := os.ReadFile(filepath.Join(offer.Dir, layout.Manifest))
	if err != nil {
		f.Fatal(err)
	}
	m, err := checkpoint.Decode(text)
	if err != nil || len(m.Files) != files || m.Samples != offer.Samples || m.Bytes() != offer.Bytes {
		f.Errorf("the manifest lists %d files, want %d: %v", len(m.Files), files, err)
	}
	left, err := os.ReadDir(offer.Dir)
	if err != nil || len(left) != entries {
		f.Errorf("%d entries in the checkpoint's directory, want %d: %v", len(left), entries, err)
	}
	for _, node := range []cluster.NodeID{"n1", "n2"} {
		kvs, _, err := f.store.Range(f.Context(), record.SavedPrefix(node, j.Job, 1))
		for _, kv := range kvs {
			if len(kv.Value) > checkpoint.InlineBytes {
				f.Errorf("%s has %d bytes", kv.Key, len(kv.Value))
			}
		}
		if err != nil {
			f.Error(err)
		}
	}
	return offer
}

// A checkpoint of more files than a record can list is committed like any other.
func TestACheckpointOfManyFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.disk(filepath.Join(f.dir, "ck"), "65536") // whose fsync costs nothing
	f.agent(f.settings("n1"))
	j := f.job("many", []string{"/bin/sh", "-c", `
d="$BELLOWS_CHECKPOINT_DIR/step-5"; mkdir -p "$d"; cd "$d"; seq -f shard-%06g ` + manyFiles + ` | xargs touch; echo samples=40 > COMPLETE
trap 'exit 0' TERM; while :; do sleep 0.05; done`}, map[string]int{"n1": 1}, "n1")
	f.start(j)
	if offer := f.soleOffer(j, 20001, 20002); offer.Step != 5 || offer.Samples != 40 {
		t.Errorf("offer %+v", offer)
	}
}

// The same of two nodes, one with few files and one with many, whose lists come together.
func TestACheckpointOfManyFilesOfOneNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.disk(filepath.Join(f.dir, "ck"), "65536")
	f.agent(f.settings("n1"))
	f.agent(f.settings("n2"))
	script := filepath.Join(f.dir, "many.py")
	if err := os.WriteFile(script, []byte(`
import os, time, bellows
def write(directory):
    for i in range(`+manyFiles+` if bellows.rank() else 3):
        open(os.path.join(directory, "shard-%06d" % i), "w").close()
bellows.save(5, write, samples=40)
while not bellows.should_stop(6): time.sleep(0.05)
`), 0o644); err != nil {
		t.Fatal(err)
	}
	j := f.job("manynodes", []string{"/usr/bin/python3", script}, map[string]int{"n1": 1, "n2": 1}, "n1", "n2")
	f.start(j)
	if offer := f.soleOffer(j, 20003, 3); offer.Step != 5 || offer.Samples != 40 || offer.WorldSize != 2 {
		t.Errorf("offer %+v", offer)
	}
}

// What etcd never takes is a problem of the job, not of its agent's log alone.
func TestASaveThatCannotBeRecordedIsAProblem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.writer()
	jg := record.JobGen{Job: "j", Generation: 1}
	r := n.runs.newRun(jg, "", t.TempDir(), agent.Live)
	r.report = &run.Report{Saves: []run.Save{{Step: 5, Dir: "/ck"}}, Workers: []record.Worker{{}}}
	r.saved = agent.Remember(r.saved, r.report.Saves)
	r.saves.Digests[5] = agent.Work[record.Saved]{Done: true, Value: record.Saved{Dir: strings.Repeat("x", 4<<20), Ranks: []int{0}}}
	goal := agent.Goal{Job: "j", Generation: 1, Read: true, Permit: true, Plan: &record.Plan{World: cluster.World{
		Job: "j", Generation: 1, Members: []cluster.Member{{Node: "n1", AliveRev: n.session.presence.aliveRev, Devices: []cluster.DeviceID{"d"}}},
	}}}
	written := 0
	for _, a := range agent.Plan(agent.Desired{Node: "n1", AliveRev: n.session.presence.aliveRev, Goals: []agent.Goal{goal}}, n.goals.observed()) {
		if _, ok := a.(agent.WriteSaved); ok {
			n.act(a)
			(<-n.Events())()
			written++
		}
	}
	if got := r.problem(""); written != 1 || !strings.Contains(got, "the checkpoint of step 5 is lost: ") || !strings.Contains(got, "saved j/1 step=5") {
		t.Errorf("%d writes, problem %q", written, got)
	}
}

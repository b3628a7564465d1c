package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

// sleeper is a script that trains for ever and cannot save.
func sleeper() []string { return []string{"/bin/sh", "-c", "exec sleep 600"} }

func TestRunFromGrantToForgetting(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	j := f.job("plain", []string{"/bin/sh", "-c", "echo hello from $RANK of $WORLD_SIZE"}, map[string]int{"n1": 2}, "n1")
	f.start(j)
	started := ack[record.Started](f, j, "n1", record.AckStarted)
	if len(started.Workers) != 2 || started.Workers[1].Rank != 1 || started.Workers[1].Device != "SIM-n1-1" || started.ExecedAt.IsZero() {
		t.Errorf("started: %+v", started)
	}
	stopped := ack[record.Stopped](f, j, "n1", record.AckStopped)
	if !stopped.Finished || len(stopped.Exits) != 2 || !stopped.SignalledAt.IsZero() {
		t.Errorf("stopped: %+v", stopped)
	}
	log, err := os.ReadFile(filepath.Join(s.Dir, "data", "logs", "plain", "g00000001", "rank-1.log"))
	if err != nil || string(log) != "hello from 1 of 2\n" {
		t.Errorf("log: %q, %v", log, err)
	}
	f.until("an empty run directory", func() bool { return f.empty(s) })
	f.commit(record.Delete(record.GrantKey("n1", j.Job)))
	f.commit(record.DeletePrefix(record.JobPrefix(j.Job)))
	f.until("the node's own records to be forgotten", func() bool {
		return f.absent(record.AckKey("n1", j.Job, 1, record.AckStarted)) && f.absent(record.AckKey("n1", j.Job, 1, record.AckStopped))
	})
}

// The leader may forget a generation long after this node has done with it.
func TestCollectedGenerationsAreForgottenLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	stop := f.agent(s)
	j := f.job("brief", []string{"/bin/true"}, map[string]int{"n1": 1}, "n1")
	f.start(j)
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	f.commit(record.Delete(record.GrantKey("n1", j.Job)))
	f.until("an empty run directory", func() bool { return f.empty(s) })
	k := f.job("kept", []string{"/bin/true"}, map[string]int{"n1": 1}, "n1")
	f.start(k)
	ack[record.Stopped](f, k, "n1", record.AckStopped)
	f.commit(record.Delete(record.GrantKey("n1", k.Job)))
	stop()
	f.commit(record.DeletePrefix(record.GenerationPrefix(j.Job, 1)))
	f.agent(s)
	f.until("the node's own records to be forgotten", func() bool {
		return f.absent(record.AckKey("n1", j.Job, 1, record.AckStarted)) && f.absent(record.AckKey("n1", j.Job, 1, record.AckStopped))
	})
	if f.absent(record.AckKey("n1", k.Job, 1, record.AckStopped)) {
		t.Error("a generation that the leader keeps was forgotten")
	}
}

// A plan is deleted by hand while its workers run. They end, and the leader, which
// waits for who holds a grant, hears of it; what the node has said stays until the
// grant goes.
func TestWhatLosesItsPlanEndsAndIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	j := f.job("planless", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	ack[record.Started](f, j, "n1", record.AckStarted)
	f.commit(record.Delete(record.PlanKey(j.Job, 1)))
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	if !f.empty(s) {
		t.Error("it is acknowledged as stopped before its run is gone")
	}
	f.commit(record.Delete(record.GrantKey("n1", j.Job)))
	f.until("the node's own records to be forgotten", func() bool {
		return f.absent(record.AckKey("n1", j.Job, 1, record.AckStarted)) && f.absent(record.AckKey("n1", j.Job, 1, record.AckStopped))
	})
}

// empty reports whether no run directory is left.
func (f *fixture) empty(s settings) bool {
	entries, err := os.ReadDir(filepath.Join(s.Dir, "r"))
	return err == nil && len(entries) == 0
}

func TestPlainScriptsAreOfferedOnHalt(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"whole": `trap 'echo state > "$BELLOWS_CHECKPOINT_DIR/model"; exit 0' TERM; : > "$BELLOWS_CHECKPOINT_DIR/.up"; while :; do sleep 0.02; done`,
		"steps": `d="$BELLOWS_CHECKPOINT_DIR/step-7"; mkdir -p "$d"; echo state > "$d/model"; : > "$d/COMPLETE"; : > "$BELLOWS_CHECKPOINT_DIR/.up"
			trap 'exit 143' TERM; while :; do sleep 0.02; done`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.agent(f.settings("n1"))
			j := f.job("plain", []string{"/bin/sh", "-c", script}, map[string]int{"n1": 1}, "n1")
			f.start(j)
			ack[record.Started](f, j, "n1", record.AckStarted)
			gen := filepath.Join(f.dir, "ck", "plain", "g00000001")
			f.until("the script", func() bool { _, err := os.Stat(filepath.Join(gen, ".up")); return err == nil })
			f.haltAs(j, nil, true)
			if held := ack[record.Held](f, j, "n1", record.AckHeld); held.SDK || held.Begun != -1 {
				t.Errorf("held: %+v", held)
			}
			stopped := ack[record.Stopped](f, j, "n1", record.AckStopped)
			if stopped.Finished || stopped.SignalledAt.IsZero() || stopped.SavedAt.IsZero() {
				t.Errorf("stopped: %+v", stopped)
			}
			step, dir := int64(0), gen
			if name == "steps" {
				step, dir = 7, filepath.Join(gen, "step-7")
			}
			offer := await[record.Offer](f, record.OfferKey("n1", j.Job, 1, step))
			if offer.Dir != dir || offer.Step != step || offer.WorldSize != 1 || offer.Bytes < 6 {
				t.Errorf("offer: %+v", offer)
			}
			text, err := os.ReadFile(filepath.Join(dir, layout.Manifest))
			if err != nil {
				t.Fatal(err)
			}
			if m, err := checkpoint.Decode(text); err != nil || m.Step != step || m.Job != j.Job {
				t.Errorf("manifest: %+v, %v", m, err)
			}
		})
	}
}

func TestFailureHereAndAtAPeer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n1"))
	f.agent(f.settings("n2"))
	script := `if [ "$RANK" = 1 ]; then while [ ! -e "$BELLOWS_CHECKPOINT_DIR/go" ]; do sleep 0.02; done; echo no such gradient; exit 3; fi; exec sleep 600`
	j := f.job("bad", []string{"/bin/sh", "-c", script}, map[string]int{"n1": 1, "n2": 1}, "n1", "n2")
	f.start(j)
	started := ack[record.Started](f, j, "n1", record.AckStarted)
	ack[record.Started](f, j, "n2", record.AckStarted)
	if err := os.WriteFile(filepath.Join(f.dir, "ck", "bad", "g00000001", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	failed := ack[record.Failed](f, j, "n2", record.AckFailed)
	if failed.Kind != record.WorkerFailed || failed.Rank != 1 || len(failed.LogTail) != 1 || failed.LogTail[0] != "no such gradient" {
		t.Errorf("failed: %+v", failed)
	}
	// No leader has said a word.
	ack[record.Stopped](f, j, "n2", record.AckStopped)
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	if lives(started.Workers[0]) {
		t.Error("the peer's worker lives")
	}
	if !f.absent(record.AckKey("n1", j.Job, 1, record.AckFailed)) {
		t.Error("the peer that was killed calls it a failure of its own")
	}
}

func TestSecretsAreNotRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	f.agent(s)
	j := f.job("secretive", []string{"/bin/sh", "-c", `test ${#TOKEN} = 13`}, map[string]int{"n1": 1}, "n1")
	j.Spec.EnvFile = filepath.Join(f.dir, "secrets")
	if err := os.WriteFile(j.Spec.EnvFile, []byte("TOKEN=correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.start(j)
	if stopped := ack[record.Stopped](f, j, "n1", record.AckStopped); !stopped.Finished {
		t.Errorf("the worker did not get it: %+v", stopped)
	}
	kvs, _, err := f.store.Range(f.Context(), record.Root)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		if strings.Contains(string(kv.Value), "horse") {
			t.Errorf("etcd holds the secret: %s = %s", kv.Key, kv.Value)
		}
	}
}

func TestWithdrawnPermitKills(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n1"))
	j := f.job("long", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	started := ack[record.Started](f, j, "n1", record.AckStarted)
	f.commit(record.Delete(record.PermitKey(j.Job, 1)))
	if stopped := ack[record.Stopped](f, j, "n1", record.AckStopped); stopped.Finished || len(stopped.Exits) != 1 || stopped.Exits[0].Signal != 9 {
		t.Errorf("stopped: %+v", stopped)
	}
	if lives(started.Workers[0]) {
		t.Error("the worker lives")
	}
}

func TestRefusedJobsSayWhy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n1"))
	j := f.job("lost", sleeper(), map[string]int{"n1": 1}, "n1")
	j.Spec.Workdir = filepath.Join(f.dir, "nowhere")
	f.start(j)
	failed := ack[record.Failed](f, j, "n1", record.AckFailed)
	if failed.Kind != record.NodeRefused || failed.Rank != -1 {
		t.Errorf("failed: %+v", failed)
	}
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	if !f.absent(record.AckKey("n1", j.Job, 1, record.AckStarted)) {
		t.Error("acknowledged as started")
	}

	// A plan for another life of this node.
	k := f.job("stale", sleeper(), map[string]int{"n1": 1}, "n1")
	k.Members[0].AliveRev--
	f.start(k)
	if failed := ack[record.Failed](f, k, "n1", record.AckFailed); failed.Kind != record.NodeFenced {
		t.Errorf("failed: %+v", failed)
	}
	ack[record.Stopped](f, k, "n1", record.AckStopped)
}

func TestNextGenerationStartsWhenTheLastIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n1"))
	j := f.job("grow", sleeper(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	first := ack[record.Started](f, j, "n1", record.AckStarted)
	next := *j
	next.Generation = 2
	f.start(&next) // a leader that does not wait; the node does
	second := ack[record.Started](f, &next, "n1", record.AckStarted)
	if lives(first.Workers[0]) {
		t.Error("the first generation's worker lives beside the second's")
	}
	stopped := f.awaitKV(record.AckKey("n1", j.Job, 1, record.AckStopped), func(record.KV) bool { return true })
	var s record.Stopped
	if err := json.Unmarshal(stopped.Value, &s); err != nil {
		t.Fatal(err)
	}
	if s.ExitedAt.After(second.ExecedAt) {
		t.Errorf("the first ended at %v, the second began at %v", s.ExitedAt, second.ExecedAt)
	}
}

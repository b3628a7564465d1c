package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// I5: a bit that flips in the newest committed checkpoint costs the steps since
// the one before, and nothing else.
func TestDamagedCheckpointFallsBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	id := f.submit(f.sdkJob("flip", 1, 1, 250, 0.03, "--save-every", "25"))
	m := f.await(time.Minute, "two checkpoints", func(m *record.Mirror) bool { return len(m.Job(id).Checkpoints) >= 2 })
	f.killNode("n1") // with the agent that digested them
	damaged := m.Job(id).Committed.Value
	if now := f.mirror().Job(id).Committed.Value; now != damaged {
		t.Fatalf("committed %+v after it had %+v: the machine is too slow for this test", now, damaged)
	}
	f.flip(filepath.Join(damaged.Dir, "rank-00000", "state.json"))
	f.startAgent(1)
	f.awaitPhase(id, time.Minute, cluster.Succeeded)

	job := f.mirror().Job(id)
	bad, ok := job.Bad[damaged.Step]
	if !ok || bad.Value.Checkpoint != damaged || !strings.Contains(bad.Value.Reason, "rank-00000/state.json is corrupt: sha256 is ") {
		t.Errorf("recorded as bad: %+v, want %+v and its file", bad.Value, damaged)
	}
	plan := job.Generation(job.State.Value.Generation).Plan.Value
	want := fmt.Sprintf("falling back to step %d", damaged.Step-25)
	if plan.Resume == nil || plan.Resume.Step != damaged.Step-25 || !strings.Contains(plan.Why, want) {
		t.Errorf("went on from %+v because %q, want %q", plan.Resume, plan.Why, want)
	}
	if job.State.Value.Restarts != 0 {
		t.Errorf("charged: %+v", job.State.Value)
	}
	batches(t, f.trace("flip")) // no step is missing
}

// The only checkpoint is damaged: nothing starts, and the reason says what to do.
func TestOnlyCheckpointDamagedHolds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	id := f.submit(f.sdkJob("alone", 1, 1, 100000, 0.05, "--save-every", "40"))
	m := f.await(time.Minute, "a checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Exists() })
	f.killNode("n1")
	f.flip(filepath.Join(m.Job(id).Committed.Value.Dir, "rank-00000", "state.json"))
	f.startAgent(1)
	s := f.awaitPhase(id, time.Minute, cluster.Held)
	if !strings.Contains(s.Reason, "checkpoint of step 40 is damaged") || !strings.Contains(s.Reason, "there is no older one") {
		t.Errorf("held because %q", s.Reason)
	}
	if w := f.workers(id); len(w) > 0 {
		t.Errorf("workers %v run without a checkpoint", w)
	}
}

// flip changes one bit in the middle of a file.
func (f *fleet) flip(name string) {
	f.t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		f.t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(name, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

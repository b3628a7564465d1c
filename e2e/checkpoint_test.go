package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// I5: a bit that flips in the newest committed checkpoint costs the steps since
// the one before, and nothing else.
func TestDamagedCheckpointFallsBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	id := f.submit(f.saver("flip", 20, 60))
	f.await("the second checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step == 60 })
	f.killNode("n1") // with the agent that digested them
	damaged := f.mirror().Job(id).Committed.Value
	f.flip(filepath.Join(damaged.Dir, "rank-00000", "state.json"))
	f.startAgent(1)
	f.await("the step to be saved again", func(m *record.Mirror) bool {
		c := m.Job(id).Committed.Value
		return c.Step >= damaged.Step && c.Generation > damaged.Generation
	})
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)

	var bad record.BadCheckpoint // until the step was saved again
	for _, c := range f.history() {
		if c.Key == record.BadCheckpointKey(id, damaged.Step) && !c.Deleted {
			if err := json.Unmarshal(c.Value, &bad); err != nil {
				t.Error(err)
			}
		}
	}
	if bad.Checkpoint != damaged || !strings.Contains(bad.Reason.String(), "rank-00000/state.json is corrupt: sha256 is ") {
		t.Errorf("recorded as bad: %+v, want %+v and its file", bad, damaged)
	}
	job := f.mirror().Job(id)
	plan := job.Generation(job.State.Value.Generation).Plan.Value
	if plan.Resume == nil || plan.Resume.Step != 20 {
		t.Errorf("went on from %+v because %q, want step 20", plan.Resume, plan.Why)
	}
	if job.State.Value.Restarts != 0 {
		t.Errorf("charged: %+v", job.State.Value)
	}
}

// The only checkpoint is damaged: nothing starts, and the reason says what to do.
func TestOnlyCheckpointDamagedHolds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	id := f.submit(f.saver("alone", 40))
	m := f.await("a checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Exists() })
	f.killNode("n1")
	f.flip(filepath.Join(m.Job(id).Committed.Value.Dir, "rank-00000", "state.json"))
	f.startAgent(1)
	s := f.awaitPhase(id, cluster.Held)
	if !strings.Contains(s.Reason.String(), "checkpoint of step 40 is damaged") || !strings.Contains(s.Reason.String(), "there is no older one") {
		t.Errorf("held because %q", s.Reason)
	}
	if w := f.workers(id); len(w) > 0 {
		t.Errorf("workers %v run without a checkpoint", w)
	}
}

// Of many checkpoints three stay, with the one that the running generation resumed from.
func TestOldCheckpointsAreDeleted(t *testing.T) {
	t.Parallel()
	const most = 4
	f := newFleet(t, config{nodes: 1, devices: 2, policy: "share"})
	id := f.submit(f.sdkJob("saver", 1, 2, 1<<30, 0.1, "--save-every", "20"))
	committed := func(step int) {
		f.await(fmt.Sprintf("a commit after step %d, and at most %d directories", step, most), func(m *record.Mirror) bool {
			return m.Job(id).Committed.Value.Step > int64(step) && len(f.saves(id)) <= most
		})
	}
	committed(100)
	other := f.submit(f.sdkJob("other", 1, 1, 20, 0.05)) // rescales it, and again when it has ended
	f.awaitPhase(other, cluster.Succeeded)
	f.awaitStep("saver", f.lastStep("saver"), 2)
	committed(f.lastStep("saver") + 100)
	f.whileFrozen(id, func() { // so that nothing is saved meanwhile, however slow the agent is
		f.eventually("what is surplus to be deleted", func() bool { return len(f.saves(id)) <= most })
		f.stop(id)
	})
	f.awaitPhase(id, cluster.Stopped)

	job := f.mirror().Job(id)
	if len(job.Checkpoints) != 3 {
		t.Errorf("the history has %d entries", len(job.Checkpoints))
	}
	left := f.saves(id)
	for step, c := range job.Checkpoints {
		if !slices.Contains(left, c.Value.Dir) {
			t.Errorf("the checkpoint of step %d is not on disk: %v", step, left)
		}
	}
	if len(left) > most+1 { // the last save was committed as the agent let go of the job
		t.Errorf("%d directories are left: %v", len(left), left)
	}
}

// saves lists the step directories that a job has on disk.
func (p *place) saves(id cluster.JobID) []string {
	p.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.dir, "ckpt", string(id), "g*", "step-*"))
	if err != nil {
		p.t.Fatal(err)
	}
	return dirs
}

// flip changes one bit in the middle of a file.
func (p *place) flip(name string) {
	p.t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		p.t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(name, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

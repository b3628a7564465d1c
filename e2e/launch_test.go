package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func TestPlainScriptTrainsToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2})
	out, errs, code := f.bellows("run", "--name", "plain", "--max", "4", "--checkpoint-dir", filepath.Join(f.dir, "ckpt"),
		"--", python, example(t, "plain.py"), "--steps", "300", "--save-every", "100")
	if code != 0 {
		t.Fatalf("run exited %d\n%s\n%s", code, out, errs)
	}
	for _, want := range []string{"begin with 4 workers", "step 300: end"} {
		if !strings.Contains(out, want) {
			t.Errorf("the followed log lacks %q:\n%s\n%s", want, out, errs)
		}
	}
	s := f.show("plain")
	if s.Phase != cluster.Succeeded || len(s.Checkpoints) == 0 || s.Checkpoints[len(s.Checkpoints)-1].Step != 300 {
		t.Errorf("phase %s, checkpoints %+v", s.Phase, s.Checkpoints)
	}
}

func TestRunExitsWithTheJobsStatus(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	_, errs, code := f.bellows("run", "--name", "seven", "--max", "1", "--max-restarts", "0", "--checkpoint-dir", filepath.Join(f.dir, "c"),
		"--", "/bin/sh", "-c", "echo the reason >&2; exit 7")
	if code != 7 {
		t.Errorf("run exited %d, want 7\n%s", code, errs)
	}
	s := f.show("seven")
	if s.Phase != cluster.Failed || s.Failure == nil || s.Failure.Rank != 0 || !strings.Contains(strings.Join(s.Failure.LogTail, "\n"), "the reason") {
		t.Errorf("show: phase %s, failure %+v", s.Phase, s.Failure)
	}
}

func TestWorkersFailAndAreRestartedWithinTheLimit(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2})
	id := f.submit(job{
		"name": "flaky", "min": 2, "max": 2, "max-restarts": 2, "workdir": f.dir, "checkpoint-dir": filepath.Join(f.dir, "c"),
		"command": []string{"/bin/sh", "-c", "test $RANK = 0 || exit 3; sleep 60"},
	})
	f.awaitPhase(id, cluster.Failed)
	s := f.show(id)
	if s.Generation != 3 || s.Failure == nil || s.Failure.Rank != 1 || s.ExitCode == nil || *s.ExitCode != 3 {
		t.Errorf("%d generations, failure %+v; want 3 (one start, two restarts) and rank 1's exit status 3", s.Generation, s.Failure)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2})
	id := f.submit(f.sdkJob("long", 1, 2, 100000, 0.05))
	f.awaitStep("long", 3, 0)
	if out, errs, code := f.bellows("stop", "long"); code != 0 {
		t.Fatalf("stop exited %d: %s%s", code, out, errs)
	}
	f.awaitPhase(id, cluster.Stopped)
	f.nothingLeft(id)
	committed := f.mirror().Job(id).Committed
	if !committed.Exists() || committed.Value.Step < 4 {
		t.Errorf("a stop saves first, but the committed checkpoint is %+v", committed.Value)
	}
}

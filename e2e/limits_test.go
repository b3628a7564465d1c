package e2e

import (
	"path/filepath"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// A worker that wants more memory than it may have is killed, and its owner is
// told so, with the rank. Where the agent cannot limit anything, as for an ordinary
// user, the node refuses the job and says why; it never runs without its limits.
func TestAMemoryLimitIsKeptOrTheJobRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2})
	id := f.submit(job{
		"name": "hog", "min": 2, "max": 2, "max-restarts": 0, "memory-per-worker": "64M", "cpus-per-worker": 1.5,
		"workdir": f.dir, "checkpoint-dir": filepath.Join(f.dir, "c"),
		"command": []string{"/bin/sh", "-c", "[ $RANK = 0 ] && exec sleep 600; exec dd if=/dev/zero of=/dev/null bs=300M count=1000"},
	})
	s := f.awaitShown(id, "killed or refused", func(s api.JobStatus) bool {
		return s.Phase == cluster.Failed || s.Excluded["n1"] != ""
	})
	if s.Phase == cluster.Failed && (s.Failure == nil || s.Failure.Rank != 1 || s.Failure.Reason != "killed: out of its memory limit of 64 MiB") {
		t.Errorf("failure %+v", s.Failure)
	}
	if s.Phase != cluster.Failed && s.Failure != nil {
		t.Errorf("refused, and yet failed: %+v", s.Failure)
	}
	if want := (cluster.Limits{MemoryBytes: 64 << 20, CPUs: 1.5}); s.PerWorker != want {
		t.Errorf("shown limits %+v, want %+v", s.PerWorker, want)
	}
}

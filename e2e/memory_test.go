package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// hungry trains, unless it is alone: then it has torch's words for too little memory, and fails.
const hungry = `
if [ "$WORLD_SIZE" = 1 ]; then
	echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." >&2
	exit 1
fi
trap 'exit 0' TERM
while :; do sleep 0.1; done
`

// A size at which a worker runs out of memory is given up without a restart; show says so,
// and the job goes on with more workers. Where it may have no more, it fails at once, with the remedy.
func TestASizeOutOfMemoryIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2})
	other := f.submit(f.sdkJob("other", 1, 1, 1<<30, 0.1))
	f.awaitRunning(other, 1, 0)
	j := f.shellJob("hungry", hungry)
	j["max"], j["max-restarts"] = 2, 0
	id := f.submit(j)
	s := f.awaitShown(id, "without its smallest size", func(s api.JobStatus) bool { return s.OutOfMemory == 1 })
	if s.Ended || s.Restarts != 0 {
		t.Errorf("%s, %d restarts: %s", s.Phase, s.Restarts, s.Reason)
	}
	f.says(0, []string{"too little with 1 worker, so it runs with more"}, "show", string(id))
	f.stop(other)
	f.awaitRunning(id, 2, 1)
	if s := f.show(id); s.Restarts != 0 || s.OutOfMemory != 1 {
		t.Errorf("%d restarts, out of memory at %d", s.Restarts, s.OutOfMemory)
	}
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)

	j = f.shellJob("starved", hungry)
	j["max-restarts"] = 3
	ended := f.awaitPhase(f.submit(j), cluster.Failed)
	if !strings.Contains(ended.Reason.String(), "out of memory with 1 worker, the most that it may have: raise --max, or lower --micro-batch or --batch-size") || ended.Restarts != 0 {
		t.Errorf("failed with %d restarts because %q", ended.Restarts, ended.Reason)
	}
}

// hungryRange has a batch that ranges, and torch's words for too little memory with any but the smallest.
const hungryRange = `import bellows, sys
if bellows.batch_size() > 64:
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
` + silentRange

// A batch that Bellows has raised and that runs out of memory is given up without a restart: the job goes on
// with its smallest batch at its size, show says so, and other jobs are left alone.
func TestABatchOutOfMemoryIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 3, policy: "saxena", interval: time.Second})
	other := f.submit(f.sdkJob("other", 1, 1, 1<<30, 0.1))
	f.awaitRunning(other, 1, 0)
	id := f.submit(job{
		"name": "hungry", "min": 2, "max": 2, "batch-size": "64:1000", "micro-batch": 1000, "max-restarts": 0, "workdir": f.dir, "checkpoint-dir": f.dir + "/ckpt",
		"command": []string{python, f.script("hungry.py", hungryRange)},
	})
	s := f.awaitShown(id, "that a batch is given up", func(s api.JobStatus) bool { return s.BatchLimit > 0 || s.Ended })
	if s.Ended || s.BatchLimit != 64 {
		t.Fatalf("%s, a batch of %d at most: %s", s.Phase, s.BatchLimit, s.Reason)
	}
	f.says(0, []string{"but 64 since a larger one ran out of memory: a smaller --micro-batch would let it have more"}, "show", string(id))
	f.awaitRunning(id, 2, 2)
	f.awaitLogs(id, "with 2 workers a batch of 64\n")
	m, tried := f.mirror(), 0
	for g := cluster.Generation(1); g <= m.Job(id).State.Value.Generation; g++ {
		world := m.Job(id).Generation(g).Plan.Value.World
		if world.BatchSize > 64 {
			tried++
		}
		if n := world.Size(); n != 2 && n != 0 {
			t.Errorf("generation %d has %d workers", g, n)
		}
	}
	if s := f.show(id); s.Restarts != 0 || s.OutOfMemory != 0 || s.Batch != 64 || tried != 1 {
		t.Errorf("%d restarts, out of memory at %d, a batch of %d, %d larger ones tried", s.Restarts, s.OutOfMemory, s.Batch, tried)
	}
	if g := f.mirror().Job(other).State.Value.Generation; g != 1 {
		t.Errorf("another job is in generation %d", g)
	}
}

package e2e

import (
	"strings"
	"testing"

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
	if !strings.Contains(ended.Reason, "out of memory with 1 worker, the most that it may have: raise --max, or lower --micro-batch or --batch-size") || ended.Restarts != 0 {
		t.Errorf("failed with %d restarts because %q", ended.Restarts, ended.Reason)
	}
}

package shim

import (
	"regexp"
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/sdk"
)

// Where the kernel keeps no bound, as for an agent that no root has started, the memory of all that is parked is looked at.
func TestMemoryOfWhatRunsAheadIsLookedAt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript("import os\nBIG = b'x' * (50 << 20)\nprint('rank', os.environ['RANK'])\n")
	f.order.Command[0] = "/usr/bin/python3" // which any user may execute
	f.prepares(func(p *run.Prepare) { p.Workers, p.Memory = 2, 80<<20 })
	f.startUnprivileged()
	// Neither has 80 MiB alone. The second may still be growing when they are looked at.
	tooMuch := regexp.MustCompile(`2 parked processes have \d+ MiB of memory, and may have 80`)
	f.await("too much", func(r run.Report) bool { return r.Prepared != nil && tooMuch.MatchString(r.Prepared.Cold) })
	agenttest.Eventually(t, "nothing is parked", func() bool { return len(f.ahead()) == 0 })
	agenttest.Eventually(t, "the next ones import nothing early, and need less", func() bool {
		return slices.Contains(warm.ReadLearned(f.order.LearnedFile).Active(), sdk.EarlyLesson)
	})
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

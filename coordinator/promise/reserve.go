package promise

import (
	"math"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/allocator/goodput"
)

// A promise has a reserve: the end of its job is planned earlier than what is promised, for what
// takes longer than it should. See ADR 57.

const (
	// usualReserve is the part of the time to a deadline that is kept in reserve where the plan has room for it.
	usualReserve = 20
	// lossRate is how often a node is lost in a day: 6.5 failures in 1,000 node-days of a cluster of
	// 16,000 A100 (Kokolis et al., HPCA 2025).
	lossRate = 6.5 / 1000
	// lossChance is how likely it may be that more nodes of a job are lost than its reserve is for.
	lossChance = 0.01
	// rollback is what a lost node costs besides the wait for its end and a start: the training since
	// the last checkpoint, where its owner takes one every ten minutes.
	rollback = 10 * time.Minute
	// mostLosses bounds how many lost nodes are counted; a twentieth of the time is less than so many cost.
	mostLosses = 64
)

// reserves are the reserves of a promise by a moment, in the order in which they are tried: a
// twentieth of the time, and the least that will do for a job whose speed was measured: what a new
// leader takes, what one start costs, and the losses of nodes that have to be expected.
func (c *Cluster) reserves(j Job, by time.Time) []time.Duration {
	until, v := by.Sub(c.Now), j.View
	usual := until / usualReserve
	if !j.Measured || len(v.Sizes) == 0 {
		return []time.Duration{usual}
	}
	start := time.Duration(0)
	for _, k := range v.Sizes {
		start = max(start, v.StartCost(k))
	}
	nodes := min(c.Alive, goodput.NodesFor(v.Sizes[len(v.Sizes)-1], c.PerNode))
	each := fence.TTL + c.LostAfter + start + rollback
	least := fence.TTL + start + time.Duration(losses(lossRate*float64(nodes)*until.Hours()/24))*each
	if least >= usual {
		return []time.Duration{usual}
	}
	return []time.Duration{usual, least}
}

// losses is how many have to be expected of so many on average: more come with lossChance at most.
func losses(mean float64) int {
	chance := math.Exp(-mean) // of exactly n
	within := chance
	n := 0
	for ; within < 1-lossChance && n < mostLosses; within += chance {
		n++
		chance *= mean / float64(n)
	}
	return n
}

package batch

import (
	"math"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/sim"
)

// made is a run of one job with its figures.
func made(policy string, nodes int, completion, queueing float64) *Run {
	r := &Run{Policy: policy, Trace: "t", Nodes: nodes, Summary: sim.Summary{MeanCompletionS: completion, MeanQueueingS: queueing}}
	r.Result.Jobs = []sim.Outcome{{Phase: cluster.Succeeded, End: time.Duration(completion * float64(time.Second))}}
	return r
}

// The user of the slower policy stops the long job, which the faster one still finishes.
func TestMoreJobsAreOfThoseThatBothFinished(t *testing.T) {
	greedy, hu := made("greedy", 10, 100, 0), made("hu", 10, 550, 0)
	long := sim.Outcome{Phase: cluster.Stopped, End: 1010 * time.Second}
	greedy.Result.Jobs = append(greedy.Result.Jobs, long)
	hu.Result.Jobs[0].End = 80 * time.Second
	long.Phase = cluster.Succeeded
	hu.Result.Jobs = append(hu.Result.Jobs, long)
	Compare([]*Run{greedy, hu})
	if hu.AdditionalJobsPer100 == nil || math.Abs(*hu.AdditionalJobsPer100-25) > 1e-9 {
		t.Errorf("got %v, want 25", hu.AdditionalJobsPer100)
	}
}

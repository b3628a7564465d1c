package policy_test

import (
	"testing"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// Where it is known what a larger batch is worth, steps of that worth count, not samples:
// more of these, worth nothing, draw no devices to a job, however old it is.
func TestConvergenceCountsWhatABatchIsWorth(t *testing.T) {
	p, err := policy.ByName("convergence")
	if err != nil {
		t.Fatal(err)
	}
	in := allocator.Input{Now: epoch, Nodes: pricedNodes(5)}
	for i, fall := range []float64{0.01, 0.5} {
		j := late(i)
		j.Sizes, j.BatchSize, j.Loss = []int{1, 2, 4}, cluster.BatchSize{Min: 4, Max: 16}, &allocator.Loss{Fall: fall}
		in.Jobs = append(in.Jobs, j)
	}
	old := &in.Jobs[0]
	old.Speeds, old.Fastest = []float64{1, 1, 1}, &allocator.Fastest{Speeds: []float64{1, 1.9, 3.6}, Batches: []int{4, 8, 16}}
	for _, known := range []bool{false, true} {
		if old.Batches = nil; known {
			old.Batches = []int{4, 8, 16}
		}
		for _, d := range ask(t, p, in).Decisions {
			if want := map[bool]int{true: 4, false: 1}[known != (d.Job == old.ID)]; d.Workers != want {
				t.Errorf("its batches' worth is known: %t; %s has %d workers, want %d", known, d.Job, d.Workers, want)
			}
		}
	}
}

package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/allocator/split"
	"github.com/bellows-ml/bellows/cluster"
)

// What the program would take too long for is climbed: nearly as good, with a bound that is no proof.
// All else is proved to be the best.
func TestManyJobsAreClimbed(t *testing.T) {
	// Of a job's second step each device is worth more than of its first, so that hulls leave the second size out.
	bent := split.Job{{Devices: 1, Value: 1}, {Devices: 2, Value: 1.1}, {Devices: 4, Value: 3}}
	for count, exact := range map[int]bool{100: true, 10_000: false} {
		jobs := make([]split.Job, count)
		for i := range jobs {
			jobs[i] = bent
		}
		plan, ok := policy.SplitFast(jobs, 2*count+3)
		if !ok || exact != (plan.Bound == plan.Value) || plan.Value < 0.99*plan.Bound {
			t.Errorf("%d jobs: %t, a plan worth %v, at most %v can be had", count, ok, plan.Value, plan.Bound)
		}
	}
}

// An answer says what it is worth by equation 3, and that no other is worth more.
func TestSaxenaSaysWhatItsAnswerIsWorth(t *testing.T) {
	p, err := policy.ByName("saxena")
	if err != nil {
		t.Fatal(err)
	}
	in := allocator.Input{Now: epoch, Nodes: pricedNodes(5)}
	for i := range 2 {
		j := late(i)
		j.BatchSize = cluster.BatchSize{Min: 4, Max: 4}
		j.Sizes, j.Speeds, j.StartCosts = []int{1, 2, 4}, []float64{1, 1.5, 2 + 1.5*float64(i)}, []time.Duration{0, 0, 0}
		in.Jobs = append(in.Jobs, j)
	}
	if out := ask(t, p, in); math.Abs(out.Value-4.5) > 1e-9 || math.Abs(out.Bound-out.Value) > 1e-5 {
		t.Errorf("a job on one device and one that does 3.5 times as much on four are worth %v, at most %v", out.Value, out.Bound)
	}
}

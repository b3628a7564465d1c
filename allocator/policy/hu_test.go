package policy_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/cluster"
)

// spy is package solve's solver, which keeps what it is asked.
type spy struct {
	problem solve.Problem
	prices  []float64
	answer  []float64
}

func (x *spy) solve(p *solve.Problem, o solve.Options) (solve.Result, error) {
	var s solve.Solver
	r, err := s.Solve(p, o)
	x.problem, x.prices, x.answer = *p, slices.Clone(o.Prices), slices.Clone(r.Prices)
	return r, err
}

// scarce is a cluster on which jobs compete, so that devices have a price.
func scarce() allocator.Input {
	in := allocator.Input{Now: epoch, Interval: time.Minute}
	n := cluster.Node{ID: "a"}
	for i := range 8 {
		n.Devices = append(n.Devices, cluster.Device{ID: cluster.DeviceID(rune('0' + i)), Health: cluster.Healthy})
	}
	in.Nodes = []cluster.Node{n}
	for i := range 5 {
		in.Jobs = append(in.Jobs, allocator.JobView{
			ID: cluster.JobID(rune('a' + i)), Sizes: []int{1, 2, 4, 8}, BatchSize: cluster.BatchSize{Min: 64, Max: 64},
			SubmittedAt: epoch.Add(time.Duration(i) * time.Second), Work: allocator.Left(time.Duration(1+i) * 10 * time.Minute),
		})
	}
	return in
}

// The prices of one decision are those that the next begins with. Questions between
// two intervals, which are of other problems, neither use them nor replace them.
func TestHuRemembersItsPrices(t *testing.T) {
	x := &spy{}
	p := policy.Hu(policy.HuOptions{Solver: x.solve})
	in := scarce()
	out := ask(t, p, in)
	first := x.answer
	if x.prices != nil || len(out.Memory) == 0 || !(slices.Max(first) > 0) {
		t.Fatalf("begins with %v, prices %v, remembers %q", x.prices, first, out.Memory)
	}
	in.Memory, in.Between = []byte(`{"prices":[5,4,3,2,1]}`), true
	before := out.Memory
	if out = ask(t, p, in); x.prices != nil || !bytes.Equal(out.Memory, in.Memory) {
		t.Errorf("between: begins with %v, remembers %q instead of %q", x.prices, out.Memory, in.Memory)
	}
	in.Memory, in.Between = before, false
	if ask(t, p, in); !slices.Equal(x.prices, first) {
		t.Errorf("begins with %v, not with %v", x.prices, first)
	}
}

// Whatever it remembers, be it of another cluster, its plan is as good: within a thousandth.
func TestMemoryMakesNoPlanWorse(t *testing.T) {
	p, err := policy.ByName("hu")
	if err != nil {
		t.Fatal(err)
	}
	var memory []byte
	for seed := range uint64(seeds / 4) {
		in := random(seed, true)
		in.Between = false
		cold := ask(t, p, in)
		for _, m := range [][]byte{
			memory, []byte("junk"), []byte(`{"prices":[0,0,0,0,0]}`), []byte(`{"prices":[1e9,1e9,1e9,1e9,1e9]}`),
			[]byte(`{"prices":[1e-9,1e-9,1e-9,1e-9,1e-9]}`), []byte(`{"prices":[-1,1,1,1,1]}`), []byte(`{"prices":[1]}`),
		} {
			in.Memory = m
			warm := ask(t, p, in)
			if slack := 1.001e-3 * cold.Value; warm.Value < cold.Value-slack || warm.Bound > cold.Bound+slack {
				t.Errorf("seed %d, memory %q: value %v, bound %v; without %v, %v", seed, m, warm.Value, warm.Bound, cold.Value, cold.Bound)
			}
		}
		memory = cold.Memory
	}
}

// As published its step is five minutes, all changes cost the same, and it remembers nothing.
func TestHuAsPublished(t *testing.T) {
	x := &spy{}
	p := policy.Hu(policy.HuOptions{Published: true, Solver: x.solve})
	in := scarce()
	in.Jobs[0].Work = allocator.Left(4 * time.Minute) // which one device does within the step
	in.Jobs[1].Workers = 0
	in.Memory = ask(t, policy.Hu(policy.HuOptions{}), in).Memory
	out := ask(t, p, in)
	if x.prices != nil || out.Memory != nil {
		t.Errorf("begins with %v, remembers %q", x.prices, out.Memory)
	}
	if x.problem.Step != 300 || x.problem.Jobs[0].Speeds[1] != 1 || x.problem.Jobs[0].Bonus != 2e-4 {
		t.Errorf("step %v, job %+v", x.problem.Step, x.problem.Jobs[0])
	}
	if out.Decisions[0].Workers != 1 {
		t.Errorf("a job that one device does within the step has %d", out.Decisions[0].Workers)
	}
}

package policy_test

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

// On clusters some of whose nodes have a price, answers are accepted and placed, each job is
// on the node that was said, and settled questions leave it there.
func TestJahaniOnNodesWithPrices(t *testing.T) {
	p, err := policy.ByName("jahani")
	if err != nil {
		t.Fatal(err)
	}
	onNode, onPriced, wait := 0, 0, 0
	for seed := range uint64(seeds) {
		in := random(seed, seed%2 == 0)
		price := map[string]float64{}
		for i := range in.Nodes {
			in.Nodes[i].PricePerHour = []float64{0, 0.5, 4}[(int(seed)+i)%3]
			price[string(in.Nodes[i].ID)] = in.Nodes[i].PricePerHour
		}
		out := ask(t, p, in)
		next := adopt(t, in, out)
		for i, d := range out.Decisions {
			if d.Workers > 0 && d.Node != "" {
				onNode++
				if price[string(d.Node)] > 0 {
					onPriced++
				}
				if at := next.Jobs[i].Present.Placements; len(at) != 1 || at[0].Node != d.Node {
					t.Errorf("seed %d: %+v is on %+v", seed, d, at)
				}
			}
			if d.Workers == 0 && in.Jobs[i].Workers == 0 {
				wait++
			}
		}
	}
	if onNode < seeds || onPriced < seeds/4 || wait < seeds {
		t.Errorf("%d decisions name a node, %d one with a price, %d jobs wait", onNode, onPriced, wait)
	}
}

// The check refuses a node that does not have what is decided to be on it.
func TestANodeHasWhatIsDecidedToBeOnIt(t *testing.T) {
	in := random(7, true)
	for seed := uint64(8); len(in.Nodes) < 2 || len(in.Jobs) < 2; seed++ {
		in = random(seed, true)
	}
	in.Between = false
	in.Jobs = slices.Clone(in.Jobs)
	for i := range in.Jobs {
		in.Jobs[i].Workers, in.Jobs[i].Present.Placements, in.Jobs[i].Sizes = 0, nil, []int{1}
	}
	small := in.Nodes[0]
	small.Devices = small.Devices[:1]
	in.Nodes[0] = small
	for onIt, fits := range map[int]bool{1: true, 2: false} {
		p := naming{node: small.ID, jobs: onIt}
		if _, err := allocator.Run(p, in); (err == nil) != fits {
			t.Errorf("%d workers on a node of one device: %v", onIt, err)
		}
	}
}

// naming puts its first jobs on one node.
type naming struct {
	node cluster.NodeID
	jobs int
}

func (naming) Name() string { return "naming" }

func (n naming) Allocate(in allocator.Input) (out allocator.Output) {
	for i, j := range in.Jobs {
		d := allocator.Decision{Job: j.ID}
		if i < n.jobs {
			d.Workers, d.Node = 1, n.node
		}
		out.Decisions = append(out.Decisions, d)
	}
	return out
}

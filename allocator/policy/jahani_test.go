package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/capacity"
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

// pricedNodes are nodes of one device each, each with a price of its own.
func pricedNodes(count int) (nodes []cluster.Node) {
	for i := range count {
		id := fmt.Sprintf("n%05d", i)
		nodes = append(nodes, cluster.Node{
			ID: cluster.NodeID(id), PricePerHour: 1 + float64(i)/float64(count),
			Devices: []cluster.Device{{ID: cluster.DeviceID(id), Health: cluster.Healthy}},
		})
	}
	return nodes
}

// late is a job of one worker that is due at once.
func late(i int) allocator.JobView {
	return allocator.JobView{
		ID: cluster.JobID(fmt.Sprintf("j%05d", i)), Sizes: []int{1}, BatchSize: cluster.BatchSize{Min: 1, Max: 1}, Priority: 100,
		SubmittedAt: epoch, Deadline: epoch.Add(time.Hour), Work: allocator.Left(time.Hour),
	}
}

// However many kinds of nodes a cluster has, all are planned for.
func TestJahaniUsesNodesOfAnyNumberOfKinds(t *testing.T) {
	p, err := policy.ByName("jahani")
	if err != nil {
		t.Fatal(err)
	}
	for _, kinds := range []int{capacity.MaxTypes, capacity.MaxTypes + 1, 3 * capacity.MaxTypes} {
		in := allocator.Input{Now: epoch.Add(2 * time.Hour), Nodes: pricedNodes(kinds)}
		for i := range kinds {
			in.Jobs = append(in.Jobs, late(i))
		}
		run := 0
		for _, d := range ask(t, p, in).Decisions {
			run += d.Workers
		}
		if run != kinds {
			t.Errorf("of %d nodes with a price each, %d run a job", kinds, run)
		}
	}
}

// Where there are more nodes than can be planned for, no job ends for it, and none waits.
func TestJahaniWithoutAPlan(t *testing.T) {
	p, err := policy.ByName("jahani")
	if err != nil {
		t.Fatal(err)
	}
	for count, planned := range map[int]bool{100: true, capacity.MaxNodes + 1: false} {
		in := allocator.Input{Now: epoch.Add(2 * time.Hour), Nodes: pricedNodes(count)}
		for i := range 3 { // all of them can wait for long
			j := late(i)
			j.Deadline, j.Priority, j.Work = epoch.Add(900*time.Hour), -100, allocator.Left(time.Minute)
			if i == 0 {
				run(&j, []cluster.Placement{{Node: in.Nodes[50].ID, Devices: []cluster.DeviceID{in.Nodes[50].Devices[0].ID}}})
			}
			in.Jobs = append(in.Jobs, j)
		}
		out := ask(t, p, in)
		for i, d := range out.Decisions {
			if cheapest := d.Node == in.Nodes[0].ID; (d.Workers == 1) != (cheapest || !planned) {
				t.Errorf("of %d nodes: %+v", count, d)
			}
			if said := strings.Contains(d.Reason, "prices do not count: 16385 nodes are more than the 16384 of a plan"); !planned && i > 0 && !said {
				t.Errorf("of %d nodes: %+v", count, d)
			}
		}
		if d := out.Decisions[0]; !planned && d.Node != in.Nodes[50].ID {
			t.Errorf("what runs is moved: %+v", d)
		}
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

// Where nodes are of several models, a job has those on which it costs least: the cheap one though it is slow,
// unless it would be late, and of equal prices the one on which its time is cheapest.
func TestJahaniWeighsModelsByPrice(t *testing.T) {
	p, err := policy.ByName("jahani")
	if err != nil {
		t.Fatal(err)
	}
	nodes := []cluster.Node{node("old", "k80", 2), node("mid", "p100", 2), node("new", "v100", 2)}
	for n, price := range []float64{0.5, 2, 8} {
		nodes[n].PricePerHour = price
	}
	job := func(name string, due time.Duration, priority int, p100, v100 float64) allocator.JobView {
		return allocator.JobView{
			ID: cluster.JobID(name), Sizes: []int{1, 2}, BatchSize: cluster.BatchSize{Min: 64, Max: 64}, SubmittedAt: epoch, Priority: priority,
			Deadline: epoch.Add(due), Work: allocator.Left(10 * time.Hour), StartCosts: []time.Duration{time.Minute, time.Minute},
			Models: []allocator.OnModel{{Model: "k80", Rate: 1}, {Model: "p100", Rate: p100}, {Model: "v100", Rate: v100}},
		}
	}
	for _, c := range []struct {
		name string
		jobs []allocator.JobView
		want []string // by job; empty = it waits
	}{
		{"one with time runs where it is cheap", []allocator.JobView{job("a", 90*time.Hour, 0, 3, 8)}, []string{"old"}},
		{"one that gains more than the price by a model has it", []allocator.JobView{job("a", 90*time.Hour, 0, 6, 8)}, []string{"mid"}},
		{"one in a hurry has the fastest", []allocator.JobView{job("a", time.Hour, 50, 3, 16)}, []string{"new"}},
		{
			"each where it costs least, and one waits for the cheap node",
			[]allocator.JobView{
				job("a", time.Hour, 50, 3, 16), job("b", 12*time.Hour, 0, 6, 8),
				job("c", 20*time.Hour, 0, 1, 1), job("d", 20*time.Hour, 0, 1, 1), job("e", 200*time.Hour, 0, 1, 1),
			},
			[]string{"new", "mid", "old", "old", ""},
		},
	} {
		out := ask(t, p, allocator.Input{Now: epoch, Nodes: nodes, Jobs: c.jobs, Interval: 5 * time.Minute})
		for i, d := range out.Decisions {
			if string(d.Node) != c.want[i] || (d.Workers > 0) != (c.want[i] != "") {
				t.Errorf("%s: %+v, want it on %q", c.name, d, c.want[i])
			}
		}
	}
}

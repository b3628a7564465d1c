package policy_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
)

const seeds = 400

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// random makes a cluster and jobs, some of them running. A plain one has no
// cordoned, sick or excluded devices and no pinned jobs: there counting is all.
func random(seed uint64, plain bool) allocator.Input {
	r := rand.New(rand.NewPCG(seed, 3))
	in := allocator.Input{Now: epoch.Add(24 * time.Hour), Seed: seed, Between: r.IntN(4) == 0}
	for i := range r.IntN(7) {
		n := cluster.Node{ID: cluster.NodeID(fmt.Sprint("n", i)), Cordoned: !plain && r.IntN(8) == 0}
		for k := range []int{1, 2, 4, 8, 6}[r.IntN(5)] {
			d := cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("n%d-%d", i, k)), Health: cluster.Healthy}
			if !plain && r.IntN(15) == 0 {
				d.Health = cluster.Unhealthy
			}
			n.Devices = append(n.Devices, d)
		}
		in.Nodes = append(in.Nodes, n)
	}
	for i := range r.IntN(14) {
		in.Jobs = append(in.Jobs, randomJob(r, i, in.Nodes, plain))
	}
	slices.SortFunc(in.Jobs, func(x, y allocator.JobView) int {
		if c := x.SubmittedAt.Compare(y.SubmittedAt); c != 0 {
			return c
		}
		return bytes.Compare([]byte(x.ID), []byte(y.ID))
	})
	occupy(r, &in, plain)
	return in
}

func randomJob(r *rand.Rand, i int, nodes []cluster.Node, plain bool) allocator.JobView {
	j := allocator.JobView{
		ID: cluster.JobID(fmt.Sprint("j", i)), BatchSize: cluster.BatchSize{Min: 256, Max: 512},
		Priority: r.IntN(3) - 1, SubmittedAt: epoch.Add(time.Duration(r.IntN(10)) * time.Hour),
	}
	low := r.IntN(3) * r.IntN(2)
	for k := low; k <= low+r.IntN(5); k++ {
		j.Sizes = append(j.Sizes, 1<<k)
	}
	if i%4 == 3 { // its owner has listed other sizes
		for n := range j.Sizes {
			j.Sizes[n] = 3*j.Sizes[n] - n%2
		}
	}
	if i%5 == 4 {
		j.BatchSize.Uneven = true
	}
	if r.IntN(3) > 0 {
		j.Work = allocator.Left(time.Duration(1+r.IntN(40000)) * time.Second)
	}
	if r.IntN(3) == 0 {
		j.Deadline = epoch.Add(time.Duration(r.IntN(48)) * time.Hour)
	}
	if r.IntN(3) == 0 {
		for n, k := range j.Sizes {
			j.Speeds = append(j.Speeds, float64(k)*(0.5+0.4*r.Float64()))
			if n > 0 {
				j.Speeds[n] = max(j.Speeds[n], j.Speeds[n-1])
			}
		}
	}
	if i%3 == 1 {
		j.Loss = &allocator.Loss{Fall: float64(i) / 20}
	} else if i%5 == 2 {
		j.Loss = &allocator.Loss{Flat: "its loss rises"}
	}
	if len(j.Speeds) > 0 && i%2 == 0 {
		j.Fastest = &allocator.Fastest{Speeds: j.Speeds}
		for _, k := range j.Sizes {
			j.Fastest.Batches = append(j.Fastest.Batches, 512/k*k)
		}
	}
	if !plain && len(nodes) > 0 && r.IntN(6) == 0 {
		j.Excluded = []cluster.NodeID{nodes[r.IntN(len(nodes))].ID}
	}
	return j
}

// occupy lets some jobs run: on any devices when there is no order to keep, on
// usable ones of nodes that take them when the cluster is plain.
func occupy(r *rand.Rand, in *allocator.Input, plain bool) {
	var devices []cluster.Placement
	for _, n := range in.Nodes {
		for _, d := range n.Devices {
			devices = append(devices, cluster.Placement{Node: n.ID, Devices: []cluster.DeviceID{d.ID}})
		}
	}
	if !plain && r.IntN(5) == 0 {
		devices = append(devices, cluster.Placement{Node: "gone", Devices: []cluster.DeviceID{"gone-0"}},
			cluster.Placement{Node: "gone", Devices: []cluster.DeviceID{"gone-1"}})
	}
	r.Shuffle(len(devices), func(i, k int) { devices[i], devices[k] = devices[k], devices[i] })
	for i := range in.Jobs {
		j := &in.Jobs[i]
		size := j.Sizes[r.IntN(len(j.Sizes))]
		if r.IntN(3) == 0 || size > len(devices) {
			continue
		}
		run(j, devices[:size])
		devices = devices[size:]
		j.Trained = time.Duration(r.IntN(5)) * time.Hour
		j.Service = j.Trained * time.Duration(size)
		j.Pinned = !plain && r.IntN(6) == 0
		if !plain && r.IntN(6) == 0 {
			j.Work = allocator.Left(0)
		}
	}
}

// run puts a job on single devices, gathered by node.
func run(j *allocator.JobView, on []cluster.Placement) {
	a := cluster.Allocation{Job: j.ID, BatchSize: j.BatchSize.On(len(on))}
	for _, p := range on {
		k := slices.IndexFunc(a.Placements, func(q cluster.Placement) bool { return q.Node == p.Node })
		if k < 0 {
			a.Placements = append(a.Placements, cluster.Placement{Node: p.Node})
			k = len(a.Placements) - 1
		}
		a.Placements[k].Devices = append(a.Placements[k].Devices, p.Devices...)
	}
	j.Present, j.Workers = a, a.Workers()
}

// adopt returns the question with the answer in force.
func adopt(t *testing.T, in allocator.Input, out allocator.Output) allocator.Input {
	t.Helper()
	devices := allocator.NewDevices(in)
	var current []cluster.Allocation
	var want []place.Count
	for i, j := range in.Jobs {
		if j.Workers > 0 {
			current = append(current, j.Present)
		}
		d := out.Decisions[i]
		want = append(want, place.Count{
			Job: j.ID, Workers: d.Workers, BatchSize: d.BatchSize, Model: d.Model, Excluded: d.Closed(in.Nodes, j.Excluded), Keep: devices.MustKeep(j),
		})
	}
	r := place.Place(in.Nodes, current, want)
	if r.Unplaced != nil {
		t.Fatalf("there is no place for %+v\n%+v\n%+v", r.Unplaced, in, out.Decisions)
	}
	in.Jobs = slices.Clone(in.Jobs)
	for i := range in.Jobs {
		in.Jobs[i].Workers, in.Jobs[i].Present = 0, cluster.Allocation{}
	}
	for _, a := range r.Allocations {
		i := slices.IndexFunc(in.Jobs, func(j allocator.JobView) bool { return j.ID == a.Job })
		in.Jobs[i].Workers, in.Jobs[i].Present = a.Workers(), a
	}
	in.Memory = out.Memory
	return in
}

func workers(out allocator.Output) []int {
	var w []int
	for _, d := range out.Decisions {
		w = append(w, d.Workers)
	}
	return w
}

// each runs f for every policy on every random question.
func each(t *testing.T, plain bool, f func(t *testing.T, p allocator.Policy, in allocator.Input)) {
	for _, name := range policy.Names() {
		p, err := policy.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				f(t, p, random(seed, plain))
				if t.Failed() {
					t.Fatalf("seed %d, plain %t", seed, plain)
				}
			}
		})
	}
}

func ask(t *testing.T, p allocator.Policy, in allocator.Input) allocator.Output {
	t.Helper()
	out, err := allocator.Run(p, in)
	if err != nil {
		t.Fatalf("%v\n%+v", err, in)
	}
	return out
}

func TestAnswersAreAcceptedAndPlaced(t *testing.T) {
	for _, plain := range []bool{true, false} {
		each(t, plain, func(t *testing.T, p allocator.Policy, in allocator.Input) {
			out := ask(t, p, in)
			adopt(t, in, out)
			for i, d := range out.Decisions {
				if d.Reason == "" && (d.Workers == 0 || d.Workers != in.Jobs[i].Workers) {
					t.Errorf("%s goes from %d to %d without a reason", d.Job, in.Jobs[i].Workers, d.Workers)
				}
			}
		})
	}
}

func TestAnswersAreAFunction(t *testing.T) {
	each(t, false, func(t *testing.T, p allocator.Policy, in allocator.Input) {
		out := ask(t, p, in)
		r := rand.New(rand.NewPCG(in.Seed, 4))
		mixed := in
		mixed.Jobs, mixed.Nodes = slices.Clone(in.Jobs), slices.Clone(in.Nodes)
		r.Shuffle(len(mixed.Jobs), func(i, k int) { mixed.Jobs[i], mixed.Jobs[k] = mixed.Jobs[k], mixed.Jobs[i] })
		r.Shuffle(len(mixed.Nodes), func(i, k int) { mixed.Nodes[i], mixed.Nodes[k] = mixed.Nodes[k], mixed.Nodes[i] })
		again := ask(t, p, mixed)
		for _, d := range again.Decisions {
			i := slices.IndexFunc(out.Decisions, func(o allocator.Decision) bool { return o.Job == d.Job })
			if out.Decisions[i] != d {
				t.Errorf("in another order %+v becomes %+v", out.Decisions[i], d)
			}
		}
		if again.Value != out.Value || again.Bound != out.Bound || !bytes.Equal(again.Memory, out.Memory) {
			t.Errorf("in another order %v of %v becomes %v of %v", out.Value, out.Bound, again.Value, again.Bound)
		}
	})
}

func TestAnswersSettle(t *testing.T) {
	// Where devices are bound, moving a job can open what was closed: that may
	// take a few rounds too, but must end.
	for _, plain := range []bool{true, false} {
		each(t, plain, func(t *testing.T, p allocator.Policy, in allocator.Input) {
			rounds := 6
			if plain && !policy.MovesAgain(p) {
				rounds = 1
			}
			out := ask(t, p, in)
			for range rounds {
				in = adopt(t, in, out)
				next := ask(t, p, in)
				if slices.Equal(workers(out), workers(next)) {
					return
				}
				out = next
			}
			t.Errorf("nothing has changed, but the answer still does after %d rounds: %v\n%+v", rounds, workers(out), in)
		})
	}
}

// A job that only has to end keeps its workers, whatever the policy makes of the others.
func TestAJobWithNothingLeftKeepsItsWorkers(t *testing.T) {
	kept := 0
	each(t, false, func(t *testing.T, p allocator.Policy, in allocator.Input) {
		devices := allocator.NewDevices(in)
		for i, d := range ask(t, p, in).Decisions {
			if j := in.Jobs[i]; j.Finishing() && !j.Pinned && !in.Between && devices.MustKeep(j) {
				kept++
				if d.Workers != j.Workers || d.Reason == "" {
					t.Errorf("%s goes from %d to %d workers: %q", j.ID, j.Workers, d.Workers, d.Reason)
				}
			}
		}
	})
	if kept < 100 {
		t.Errorf("only %d jobs had nothing left", kept)
	}
}

// A policy that calls itself timeless is not asked again because time has passed
// and work got done: its answer must not depend on them.
func TestTimelessAnswersDoNotChangeWithTime(t *testing.T) {
	asked := 0
	each(t, true, func(t *testing.T, p allocator.Policy, in allocator.Input) {
		if !allocator.IsTimeless(p) {
			return
		}
		asked++
		in = adopt(t, in, ask(t, p, in))
		out := ask(t, p, in)
		r := rand.New(rand.NewPCG(in.Seed, 5))
		later := in
		later.Now, later.Jobs = in.Now.Add(time.Hour), slices.Clone(in.Jobs)
		for i := range later.Jobs {
			j := &later.Jobs[i]
			j.Trained += time.Duration(r.IntN(40)) * time.Hour
			j.Service += j.Trained * time.Duration(1+r.IntN(8))
			if j.Work.Known {
				j.Work.Left = 1 + j.Work.Left/time.Duration(1+r.IntN(9))
			}
		}
		if next := ask(t, p, later); !slices.Equal(workers(out), workers(next)) {
			t.Errorf("only time has passed, but %v becomes %v\n%+v", workers(out), workers(next), in)
		}
	})
	if asked < 5*seeds {
		t.Errorf("only %d questions were put to timeless policies", asked)
	}
}

func TestNothingIdleThatCouldWork(t *testing.T) {
	each(t, true, func(t *testing.T, p allocator.Policy, in allocator.Input) {
		out := ask(t, p, in)
		idle := allocator.NewDevices(in).Usable()
		for _, d := range out.Decisions {
			idle -= d.Workers
		}
		if policy.FixedSizes(p.Name()) {
			nothingWhole(t, p.Name() == "fifo", idle, in, out)
			return
		}
		for i, d := range out.Decisions {
			j := in.Jobs[i]
			k, _ := slices.BinarySearch(j.Sizes, d.Workers+1)
			if k == len(j.Sizes) || d.Workers > 0 && (in.Between && j.Workers > 0 || policy.LeavesIdle(p)) {
				continue
			}
			if more := j.Sizes[k] - d.Workers; more <= idle {
				t.Errorf("%s has %d of %v; %d devices are idle", j.ID, d.Workers, j.Sizes, idle)
			}
		}
	})
}

// nothingWhole demands of a policy of fixed sizes that no job waits whose full
// size is idle; of a strict one only the first that waits is asked.
func nothingWhole(t *testing.T, strict bool, idle int, in allocator.Input, out allocator.Output) {
	t.Helper()
	all := allocator.NewDevices(in).Usable()
	for i, d := range out.Decisions {
		j := in.Jobs[i]
		if d.Workers > 0 || j.Sizes[0] > all {
			continue
		}
		full := j.Sizes[0]
		for _, k := range j.Sizes {
			if k <= all {
				full = k
			}
		}
		if full <= idle {
			t.Errorf("%s waits for %d devices; %d are idle", j.ID, full, idle)
		}
		if strict {
			return
		}
	}
}

// A policy of fixed sizes changes nothing but between a job's full size and none.
func TestFixedSizesAreFixed(t *testing.T) {
	each(t, true, func(t *testing.T, p allocator.Policy, in allocator.Input) {
		if !policy.FixedSizes(p.Name()) {
			return
		}
		all := allocator.NewDevices(in).Usable()
		for i, d := range ask(t, p, in).Decisions {
			j := in.Jobs[i]
			if d.Workers == 0 || d.Workers == j.Workers {
				continue
			}
			if k := slices.Index(j.Sizes, d.Workers); k+1 < len(j.Sizes) && j.Sizes[k+1] <= all {
				t.Errorf("%s gets %d of %v on %d devices", j.ID, d.Workers, j.Sizes, all)
			}
		}
	})
}

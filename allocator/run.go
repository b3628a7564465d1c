package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// MaxMemoryBytes bounds what a policy may remember. The leader keeps it, and a new
// leader begins without: it may make an answer cheaper, but a right answer must
// not depend on it.
const MaxMemoryBytes = 1 << 20

// maxFaults bounds how many faults of one answer are reported: the first few are
// enough to find the bug.
const maxFaults = 8

// boundSlack is how far below Value a Bound may lie, relative to it: what
// adding up the same numbers in another order can cost.
const boundSlack = 1e-9

// Run asks p for a decision and trusts nothing of the answer: a panic is an
// error, and so is an answer that breaks one of these rules.
//
//   - Each job of the input has exactly one decision, and nothing else has.
//   - Workers is 0 or one of the job's Sizes.
//   - BatchSize lies in the job's range, and Workers can share it (cluster.BatchSize.Shares); 0 stands for
//     that in force where Workers stay, else JobView.BatchFor, which Run fills in.
//   - The workers fit on the devices: those usable for new work, and those that
//     jobs which keep their number hold already (a cordoned node keeps what it
//     runs). No job has more workers than its own nodes have devices, and those that
//     are to be on one node fit there beside what stays.
//   - A pinned job keeps its workers and its batch, and Between everything that runs does,
//     as long as all of its devices are still there. So does one that runs with
//     nothing left to do, as long as they are sound.
//   - Value and Bound are finite, and Bound is not below Value.
//
// Where nodes have devices of several models, the policy is asked about those of each
// model by themselves: which job runs on which is decided before (runModels).
//
// The decisions come back in the order of in.Jobs. On an error nothing of the
// answer is used: what is in force stays in force.
func Run(p Policy, in Input) (Output, error) {
	if models := cluster.Models(in.Nodes); len(models) > 1 {
		return runModels(p, in, models)
	}
	return run(p, in)
}

// run asks about devices of one model.
func run(p Policy, in Input) (Output, error) {
	name := p.Name()
	devices := NewDevices(in)
	in.devices = &devices
	out, err := ask(p, in)
	if err != nil {
		return Output{}, err
	}
	c := check{in: in, devices: devices}
	c.match(out.Decisions)
	if c.faults == nil {
		c.capacity()
	}
	c.numbers(out)
	if c.faults != nil {
		if more := len(c.faults) - maxFaults; more > 0 {
			c.faults = append(c.faults[:maxFaults], fmt.Errorf("and %d more", more))
		}
		return Output{}, fmt.Errorf("check the answer of policy %s: %w", name, errors.Join(c.faults...))
	}
	out.Decisions = c.decisions
	return out, nil
}

// ask calls the policy on a copy of the lists, so that one which sorts them in
// place cannot reorder its caller's, and turns a panic into an error.
func ask(p Policy, in Input) (out Output, err error) {
	err = guard(p, in, func(in Input) { out = p.Allocate(in) })
	return out, err
}

// guard puts a question as ask does.
func guard(p Policy, in Input, put func(Input)) (err error) {
	in.Jobs, in.Nodes, in.Memory = slices.Clone(in.Jobs), slices.Clone(in.Nodes), slices.Clone(in.Memory)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("ask policy %s about %d jobs on %d nodes (seed %d, between %t): panic: %v",
				p.Name(), len(in.Jobs), len(in.Nodes), in.Seed, in.Between, r)
		}
	}()
	put(in)
	return nil
}

// check collects what is wrong with one answer.
type check struct {
	in        Input
	devices   Devices
	decisions []Decision // in the order of in.Jobs
	faults    []error
}

func (c *check) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// match puts the decisions in the order of the jobs and checks each by itself.
func (c *check) match(decisions []Decision) {
	index := make(map[cluster.JobID]int, len(c.in.Jobs))
	for i, j := range c.in.Jobs {
		index[j.ID] = i
	}
	c.decisions = make([]Decision, len(c.in.Jobs))
	seen := make([]bool, len(c.in.Jobs))
	for _, d := range decisions {
		i, ok := index[d.Job]
		switch {
		case !ok:
			c.fault("job %q: there is no such job in the question", d.Job)
		case seen[i]:
			c.fault("job %q: decided twice, on %d and on %d workers", d.Job, c.decisions[i].Workers, d.Workers)
		default:
			seen[i] = true
			c.decisions[i] = c.single(c.in.Jobs[i], d)
		}
	}
	for i, ok := range seen {
		if !ok {
			c.fault("job %q: no decision; a waiting job needs one with 0 workers", c.in.Jobs[i].ID)
		}
	}
}

// single checks one decision against its job alone and fills in the batch size.
func (c *check) single(j JobView, d Decision) Decision {
	if d.Workers != 0 && !slices.Contains(j.Sizes, d.Workers) {
		c.fault("job %q: %d workers; it may have 0 or one of %v", j.ID, d.Workers, j.Sizes)
	}
	if d.Workers != j.Workers && c.devices.MustKeep(j) {
		why := "it is pinned to its world"
		switch {
		case c.in.Between:
			why = "between two intervals what runs keeps its workers"
		case !j.Pinned:
			why = "it has nothing left to do"
		}
		c.fault("job %q: %d workers instead of %d; %s", j.ID, d.Workers, j.Workers, why)
	}
	if d.Workers == 0 {
		d.BatchSize = 0
		return d
	}
	same := 0
	if d.Workers == j.Workers {
		same = j.sameBatch()
	}
	d.BatchSize = cmp.Or(d.BatchSize, same, j.BatchFor(d.Workers))
	if same != 0 && d.BatchSize != same && c.devices.MustKeep(j) {
		c.fault("job %q: batch size %d instead of %d; it must keep its world", j.ID, d.BatchSize, same)
	}
	if d.BatchSize < j.BatchSize.Min || d.BatchSize > j.BatchSize.Max {
		c.fault("job %q: batch size %d; it may be %d to %d", j.ID, d.BatchSize, j.BatchSize.Min, j.BatchSize.Max)
	}
	if !j.BatchSize.Shares(d.BatchSize, d.Workers) {
		c.fault("job %q: batch size %d is not shared by its %d workers", j.ID, d.BatchSize, d.Workers)
	}
	return d
}

// capacity checks that there are devices enough for all decisions together,
// and for each on the nodes that can run the job.
func (c *check) capacity() {
	need, stay, on := 0, map[cluster.DeviceID]bool{}, map[cluster.NodeID]int{}
	for i, j := range c.in.Jobs {
		d := c.decisions[i]
		if d.Node != "" {
			j.Excluded = d.Closed(c.in.Nodes, j.Excluded)
		}
		if d.Workers == j.Workers && c.devices.Stays(j) {
			for id, node := range c.devices.Held(j) {
				if !stay[id] { // one that ends may have been given on already
					on[node]++
				}
				stay[id] = true
			}
			continue
		}
		need += d.Workers
		on[d.Node] += d.Workers
		if open := c.devices.UsableFor(j); d.Workers > open {
			c.fault("job %q: %d workers; the nodes that can run it have %d usable devices", j.ID, d.Workers, open)
		}
	}
	for _, n := range c.in.Nodes {
		if has := c.devices.nodes[n.ID].usable; on[n.ID] > has {
			c.fault("node %q: %d workers on it; it has %d usable devices", n.ID, on[n.ID], has)
		}
	}
	if free := c.devices.Usable() - len(stay); need > free {
		c.fault("%d workers beside those that stay where they are; only %d devices are free for them (of %d usable)",
			need, free, c.devices.Usable())
	}
}

func (c *check) numbers(out Output) {
	for _, v := range []struct {
		field string
		value float64
	}{{"value", out.Value}, {"bound", out.Bound}} {
		if math.IsNaN(v.value) || math.IsInf(v.value, 0) {
			c.fault("%s %v: use a finite number, or 0 for none", v.field, v.value)
		}
	}
	if out.Bound != 0 && out.Bound < out.Value-boundSlack*math.Abs(out.Value) {
		c.fault("bound %v is below the value %v that was reached", out.Bound, out.Value)
	}
	if len(out.Memory) > MaxMemoryBytes {
		c.fault("memory of %d bytes: at most %d", len(out.Memory), MaxMemoryBytes)
	}
}

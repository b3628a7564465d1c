package capacity

import (
	"errors"
	"fmt"
	"math"
)

// Bounds of a problem: what a search may take, and what its labels can count.
const (
	MaxTypes   = 64
	MaxDevices = 64
	MaxJobs    = 1 << 16
	MaxNodes   = 1 << 14
)

// Problem is which nodes are to run, and what on them.
type Problem struct {
	// Nodes is how many may run at once, of all types.
	Nodes int
	// Full has as many nodes run as there are jobs and nodes for, needed or not: equation
	// (9). Without, those run that pay.
	Full  bool
	Types []Type
	Jobs  []Job
	// Present is the plan in force, nil if there is none: another has to be better.
	Present Plan
}

// Type is one type of node: v.
type Type struct {
	Devices int // s_v, at least 1
	// Most is how many of the type there are; 0 = as many as Nodes.
	Most int
	// Idle is what each device costs that is idle on a node that runs: μ.
	Idle float64
}

// Job is what the choices of a job cost.
type Job struct {
	// Wait is the cost of leaving it for later.
	Wait float64
	// Costs are those of running it, by type and, from one on, number of devices; +Inf =
	// it cannot. A type without any may be nil.
	Costs [][]float64
}

// Plan is which nodes run, and the jobs on each. A job that is on none waits.
type Plan []Node

// Node is one node that runs.
type Node struct {
	Type   int
	Shares []Share
}

// Share is how many of a node's devices a job has.
type Share struct{ Job, Devices int }

// Validate says what is wrong with a problem.
func (p *Problem) Validate() error {
	switch {
	case p.Nodes < 0 || p.Nodes > MaxNodes:
		return fmt.Errorf("%d nodes: use 0 to %d", p.Nodes, MaxNodes)
	case len(p.Types) == 0 || len(p.Types) > MaxTypes:
		return fmt.Errorf("%d types of nodes: use 1 to %d", len(p.Types), MaxTypes)
	case len(p.Jobs) > MaxJobs:
		return fmt.Errorf("%d jobs: at most %d", len(p.Jobs), MaxJobs)
	}
	for v, t := range p.Types {
		if t.Devices < 1 || t.Devices > MaxDevices || t.Most < 0 || !finite(t.Idle) || t.Idle < 0 {
			return fmt.Errorf("type %d: %d devices, at most %d nodes, idle cost %v: use 1 to %d devices and no negative numbers", v, t.Devices, t.Most, t.Idle, MaxDevices)
		}
	}
	for i, j := range p.Jobs {
		if err := p.validJob(j); err != nil {
			return fmt.Errorf("job %d: %w", i, err)
		}
	}
	return nil
}

func (p *Problem) validJob(j Job) error {
	if !finite(j.Wait) {
		return fmt.Errorf("waiting costs %v: use a finite number", j.Wait)
	}
	if len(j.Costs) != len(p.Types) {
		return fmt.Errorf("costs for %d of %d types", len(j.Costs), len(p.Types))
	}
	for v, costs := range j.Costs {
		if len(costs) > p.Types[v].Devices {
			return fmt.Errorf("costs for %d devices of type %d, which has %d", len(costs), v, p.Types[v].Devices)
		}
		for g, c := range costs {
			if math.IsNaN(c) || math.IsInf(c, -1) {
				return fmt.Errorf("%d devices of type %d cost %v: use a number, or +Inf where it cannot run", g+1, v, c)
			}
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// most is how many nodes of a type may run.
func (p *Problem) most(v int) int {
	if m := p.Types[v].Most; m > 0 {
		return min(m, p.Nodes)
	}
	return p.Nodes
}

// nodes is how many nodes may run, and have to where the problem is Full.
func (p *Problem) nodes() int {
	all := 0
	for v := range p.Types {
		all += p.most(v)
	}
	return min(p.Nodes, all, len(p.Jobs))
}

// Eval checks a plan and returns what it costs.
func Eval(p *Problem, plan Plan) (float64, error) {
	if len(plan) > p.nodes() || p.Full && len(plan) != p.nodes() {
		return 0, fmt.Errorf("%d nodes run: %d may, of %d jobs", len(plan), p.nodes(), len(p.Jobs))
	}
	cost, of, runs := 0.0, make([]int, len(p.Types)), make([]bool, len(p.Jobs))
	for n, node := range plan {
		if node.Type < 0 || node.Type >= len(p.Types) {
			return 0, fmt.Errorf("node %d is of type %d, which there is not", n, node.Type)
		}
		t := p.Types[node.Type]
		if of[node.Type]++; of[node.Type] > p.most(node.Type) {
			return 0, fmt.Errorf("%d nodes of type %d: there are %d", of[node.Type], node.Type, p.most(node.Type))
		}
		used := 0
		for _, s := range node.Shares {
			if s.Job < 0 || s.Job >= len(p.Jobs) || runs[s.Job] {
				return 0, fmt.Errorf("node %d: job %d runs elsewhere, or there is none", n, s.Job)
			}
			costs := p.Jobs[s.Job].Costs[node.Type]
			if s.Devices < 1 || s.Devices > len(costs) || math.IsInf(costs[s.Devices-1], 1) {
				return 0, fmt.Errorf("node %d: job %d cannot run on %d devices of type %d", n, s.Job, s.Devices, node.Type)
			}
			runs[s.Job] = true
			cost += costs[s.Devices-1]
			used += s.Devices
		}
		if used > t.Devices {
			return 0, fmt.Errorf("node %d: jobs have %d devices of %d", n, used, t.Devices)
		}
		cost += t.Idle * float64(t.Devices-used)
	}
	for i, j := range p.Jobs {
		if !runs[i] {
			cost += j.Wait
		}
	}
	if !finite(cost) {
		return 0, errors.New("the costs of the plan add up to no finite number")
	}
	return cost, nil
}

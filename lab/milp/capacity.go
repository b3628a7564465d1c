package milp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/bellows-ml/bellows/allocator/capacity"
)

// CapacityStatement is a problem of allocator/capacity written as a Model: the program of
// Jahani et al., section IV, with a binary variable for each job, node, type and number of
// devices (x), for each node and type (y), and for each job (z).
// Tardiness, (7) and (8), is a constant of each choice, and so a coefficient; so is
// waiting, of which the model leaves the sum out as a constant.
type CapacityStatement struct {
	Model *Model
	p     *capacity.Problem
	nodes int
	types []int // columns of y, by node and type
	x     []capacityChoice
}

// capacityChoice is what a column x stands for.
type capacityChoice struct{ column, job, node, typ, devices int }

// StateCapacity writes a problem as a model.
func StateCapacity(p *capacity.Problem) (*CapacityStatement, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("state the problem of %d jobs: %w", len(p.Jobs), err)
	}
	s := &CapacityStatement{Model: &Model{Name: "jahani"}, p: p, nodes: min(p.Nodes, len(p.Jobs))}
	sizes, all := 0, 0
	for _, t := range p.Types {
		sizes += t.Devices
		all += min(cmp.Or(t.Most, p.Nodes), p.Nodes)
	}
	s.nodes = min(s.nodes, all)
	if n := sizes * s.nodes * len(p.Jobs); n > maxColumns {
		return nil, fmt.Errorf("state the problem of %d jobs on %d nodes: up to %d variables, more than %d: take fewer", len(p.Jobs), s.nodes, n, maxColumns)
	}
	s.state()
	return s, nil
}

func (s *CapacityStatement) column(name string, objective float64) int {
	s.Model.Columns = append(s.Model.Columns, Column{Name: name, Objective: objective, Upper: 1, Integer: true})
	return len(s.Model.Columns) - 1
}

func (s *CapacityStatement) state() {
	m, p := s.Model, s.p
	all := Row{Name: "nodes", Limit: float64(s.nodes)} // (9)
	if p.Full {
		all.Sense = Exactly
	}
	of := make([]Row, len(p.Types))
	for n := range s.nodes {
		one := Row{Name: fmt.Sprintf("one_%d", n), Limit: 1} // (1)
		for v, t := range p.Types {
			y := s.column(fmt.Sprintf("y_%d_%d", n, v), -t.Idle*float64(t.Devices))
			s.types = append(s.types, y)
			one.Terms = append(one.Terms, Term{y, 1})
			all.Terms = append(all.Terms, Term{y, 1})
			of[v].Terms = append(of[v].Terms, Term{y, 1})
		}
		m.Rows = append(m.Rows, one)
	}
	m.Rows = append(m.Rows, all)
	for v, t := range p.Types {
		if t.Most > 0 {
			m.Rows = append(m.Rows, Row{Name: fmt.Sprintf("most_%d", v), Limit: float64(t.Most), Terms: of[v].Terms})
		}
	}
	room := make([]Row, s.nodes*len(p.Types)) // (6), and with it (2)
	for i := range room {
		n, v := i/len(p.Types), i%len(p.Types)
		room[i] = Row{Name: fmt.Sprintf("room_%d_%d", n, v), Terms: []Term{{s.types[i], -float64(p.Types[v].Devices)}}}
	}
	for j := range p.Jobs {
		s.job(j, room)
	}
	m.Rows = append(m.Rows, room...)
}

// job states one job's choices.
func (s *CapacityStatement) job(j int, room []Row) {
	job := &s.p.Jobs[j]
	z := s.column(fmt.Sprintf("z_%d", j), job.Wait)
	runs := Row{Name: fmt.Sprintf("runs_%d", j), Sense: Exactly, Terms: []Term{{z, -1}}} // (5), and with it (3) and (4)
	for n := range s.nodes {
		for v, costs := range job.Costs {
			at := n*len(s.p.Types) + v
			for g, c := range costs {
				if math.IsInf(c, 1) {
					continue
				}
				x := s.column(fmt.Sprintf("x_%d_%d_%d_%d", j, n, v, g+1), s.p.Types[v].Idle*float64(g+1)-c)
				s.x = append(s.x, capacityChoice{x, j, n, v, g + 1})
				runs.Terms = append(runs.Terms, Term{x, 1})
				room[at].Terms = append(room[at].Terms, Term{x, float64(g + 1)})
			}
		}
	}
	s.Model.Rows = append(s.Model.Rows, runs)
}

// Plan reads the plan out of a solver's values, one for each column. It does not check them.
func (s *CapacityStatement) Plan(values []float64) (capacity.Plan, error) {
	if len(values) != len(s.Model.Columns) {
		return nil, fmt.Errorf("read the plan: %d values for %d variables", len(values), len(s.Model.Columns))
	}
	var plan capacity.Plan
	at := make([]int, s.nodes)
	for n := range s.nodes {
		at[n] = -1
		for v := range s.p.Types {
			if values[s.types[n*len(s.p.Types)+v]] > 0.5 {
				at[n] = len(plan)
				plan = append(plan, capacity.Node{Type: v})
			}
		}
	}
	for _, x := range s.x {
		if values[x.column] <= 0.5 {
			continue
		}
		if at[x.node] < 0 || plan[at[x.node]].Type != x.typ {
			return nil, fmt.Errorf("read the plan: job %d is on node %d as of type %d, which does not run so", x.job, x.node, x.typ)
		}
		node := &plan[at[x.node]]
		node.Shares = append(node.Shares, capacity.Share{Job: x.job, Devices: x.devices})
	}
	return plan, nil
}

// CapacityReference is a solver's plan, checked.
type CapacityReference struct {
	Plan    capacity.Plan
	Cost    float64 // by capacity.Eval
	Optimal bool    // the solver claims that there is no better plan
	Took    time.Duration
}

// ReferCapacity has the problem solved by another solver and checks the answer.
func ReferCapacity(ctx context.Context, s Solver, st *CapacityStatement, limit time.Duration) (CapacityReference, error) {
	answer, err := s.Solve(ctx, st.Model, limit)
	if err != nil {
		return CapacityReference{}, fmt.Errorf("solve the %s model by %s: %w", st.Model.Name, s.Name(), err)
	}
	ref := CapacityReference{Optimal: answer.Optimal, Took: answer.Took}
	if ref.Plan, err = st.Plan(answer.Values); err == nil {
		ref.Cost, err = capacity.Eval(st.p, ref.Plan)
	}
	if err != nil {
		return CapacityReference{}, fmt.Errorf("check what %s found for the %s model: %w", s.Name(), st.Model.Name, err)
	}
	return ref, nil
}

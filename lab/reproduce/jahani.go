package reproduce

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/capacity"
	"github.com/bellows-ml/bellows/lab/milp"
	"github.com/bellows-ml/bellows/lab/plan"
)

// jahaniSaved is what figure 2 of the paper saves against the best rule of thumb, in per cent.
var jahaniSaved = map[int]float64{1: -45, 2: -65, 3: -70}

const (
	// jahaniInstances are drawn of each scenario (section V-A), and jahaniSeeds of each size
	// whose first decision is looked at.
	jahaniInstances, jahaniSeeds = 5, 8
	// jahaniRepeat is how often a decision is timed.
	jahaniRepeat = 5
	// jahaniPatience is how long CBC may take.
	jahaniPatience = 90 * time.Second
)

// jahani repeats section V of Jahani et al. on instances drawn as it says.
func jahani(ctx context.Context, o Options) (Report, error) {
	r := Report{Experiment: "jahani", Commands: []Command{}}
	nodes, sizes, instances := []int{1, 2, 3, 5, 8, 12, 15}, []int{1, 2, 3, 5, 8, 10, 12, 15, 20, 40}, jahaniInstances
	if o.Quick {
		nodes, sizes, instances = nodes[:3], sizes[:6], 2
	}
	for _, n := range nodes {
		for _, apart := range []float64{30, 45} {
			rows, err := jahaniCosts(ctx, n, apart, instances)
			if err != nil {
				return r, err
			}
			r.Rows = append(r.Rows, rows...)
		}
	}
	for _, n := range sizes {
		for _, deadlines := range []float64{jahaniLoose, jahaniTight} {
			rows, err := jahaniGaps(ctx, n, deadlines)
			if err != nil {
				return r, err
			}
			r.Rows = append(r.Rows, rows...)
		}
	}
	cbc := []int{1, 2, 3}
	if o.Quick {
		cbc = cbc[:1]
	}
	for _, n := range cbc {
		rows, err := jahaniReference(ctx, n)
		if err != nil {
			return r, err
		}
		r.Rows = append(r.Rows, rows...)
	}
	for i := range r.Rows {
		if f := &r.Rows[i]; f.Published != nil {
			percent := 100 * (f.Ours/(*f.Published) - 1)
			f.Percent = &percent
		}
	}
	return r, nil
}

// jahaniCosts is figure 2: cost by equation (16) and lateness, beside the best rule of thumb.
func jahaniCosts(ctx context.Context, nodes int, apart float64, instances int) ([]Finding, error) {
	names := []string{"jahani, as printed", "jahani", "fifo", "edf", "ps"}
	cost := make([]float64, len(names))
	for seed := range uint64(instances) {
		jobs := jahaniJobs(seed, nodes, apart/3600, jahaniLoose)
		for i, o := range []plan.Options{
			{Rule: plan.Jahani, Printed: true},
			{Rule: plan.Jahani},
			{Rule: plan.FIFO, Printed: true},
			{Rule: plan.EDF, Printed: true},
			{Rule: plan.PS, Printed: true},
		} {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			o.Nodes = nodes
			r, err := plan.Run(plan.Catalogue{Types: jahaniTypes()}, jobs, o)
			if err != nil {
				return nil, err
			}
			cost[i] += (r.Shares + r.LateCost) / float64(instances)
		}
	}
	trace := fmt.Sprintf("drawn, %v s apart", apart)
	var rows []Finding
	best := slices.Min(cost[2:])
	for i, name := range names {
		row := Finding{Figure: "2", Trace: trace, Nodes: nodes, Policy: name, Quantity: "cost, $", Ours: cost[i]}
		rows = append(rows, row)
		if i < 2 {
			row.Quantity, row.Ours = "cost against the best of fifo, edf, ps, %", 100*(cost[i]/best-1)
			if published, ok := jahaniSaved[nodes]; ok {
				row.Published = &published
			} else {
				published := -80.0
				row.Published, row.Note = &published, "published: -70 to -80"
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// jahaniGaps is figure 5: the first decision about 10 jobs a node that are all there, how far
// it is from the best at most, and how long it takes.
func jahaniGaps(ctx context.Context, nodes int, deadlines float64) ([]Finding, error) {
	mean, most := 0.0, 0.0
	var took []float64
	for seed := range uint64(jahaniSeeds) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := jahaniProblem(jahaniJobs(seed, nodes, 0, deadlines), nodes)
		for range jahaniRepeat {
			begin := time.Now()
			r, err := capacity.Solve(p)
			if err != nil {
				return nil, err
			}
			took = append(took, time.Since(begin).Seconds()*1000)
			mean += 100 * r.Gap() / (jahaniSeeds * jahaniRepeat)
			most = max(most, 100*r.Gap())
		}
	}
	slices.Sort(took)
	row := Finding{Figure: "5", Trace: "drawn, all at once", Nodes: nodes, Policy: "jahani, as printed"}
	if deadlines == jahaniTight {
		row.Trace = "drawn, tight deadlines"
	}
	rows := []Finding{row, row, row}
	rows[0].Quantity, rows[0].Ours = "certified gap, mean, %", mean
	rows[1].Quantity, rows[1].Ours = "certified gap, most, %", most
	rows[2].Quantity, rows[2].Ours = "decision, median, ms", took[len(took)/2]
	if nodes == 40 && deadlines == jahaniLoose {
		published := 12 * 60 * 1000.0
		rows[2].Published, rows[2].Note = &published, "published: 12 min at most"
	}
	return rows, nil
}

// jahaniReference has CBC solve the first decision too.
func jahaniReference(ctx context.Context, nodes int) ([]Finding, error) {
	cbc, err := milp.OpenCBC()
	if err != nil {
		return nil, fmt.Errorf("compare with cbc: %w", err)
	}
	p := jahaniProblem(jahaniJobs(0, nodes, 0, jahaniLoose), nodes)
	ours, err := capacity.Solve(p)
	if err != nil {
		return nil, err
	}
	row := Finding{Figure: "5", Trace: "drawn, all at once", Nodes: nodes, Policy: "jahani, as printed", Quantity: "objective", Ours: ours.Cost}
	rows := []Finding{row}
	st, err := milp.StateCapacity(p)
	if err != nil {
		return nil, err
	}
	ref, err := milp.ReferCapacity(ctx, cbc, st, jahaniPatience)
	row.Policy = "cbc"
	switch {
	case err != nil && ctx.Err() == nil:
		row.Quantity, row.Note = "no plan within, s", err.Error()
		row.Ours = jahaniPatience.Seconds()
		return append(rows, row), nil
	case err != nil:
		return nil, err
	}
	row.Ours = ref.Cost
	if !ref.Optimal {
		row.Note = "stopped at its limit"
	}
	rows = append(rows, row)
	row.Quantity, row.Ours = "time, s", ref.Took.Seconds()
	return append(rows, row), nil
}

package fidelity

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Options say what is compared.
type Options struct {
	Program               string // the bellows to run clusters with
	Mixes                 int
	Seed                  uint64
	Scale                 float64 // of the jobs' work and the times between their submissions; 1 = about two minutes a mix
	Policies              []string
	Nodes, DevicesPerNode int
	Interval              time.Duration
	Limit                 time.Duration // for one mix on the cluster
	// Progress is told of each comparison as its mix begins; may be nil.
	Progress func(mix, mixes int, policy string)
}

// Check finds what is wrong with the options, as values of the flags of bellows-lab bench fidelity.
func (o *Options) Check() error {
	for _, name := range o.Policies {
		if _, err := policy.ByName(name); err != nil {
			return fault.Usage("--%w", err)
		}
	}
	devices := o.Nodes * o.DevicesPerNode
	switch {
	case o.Mixes < 2:
		return fault.Usage("--mixes %d: use 2 or more: what a start costs is taken from the other mixes", o.Mixes)
	case len(o.Policies) == 0:
		return fault.Usage("--policy is empty: name one or more")
	case o.Nodes < 1 || o.DevicesPerNode < 1:
		return fault.Usage("--nodes %d --devices-per-node %d: use 1 or more of each", o.Nodes, o.DevicesPerNode)
	case devices > 64:
		return fault.Usage("--nodes %d --devices-per-node %d: use 64 devices or fewer: each may be a process of this machine", o.Nodes, o.DevicesPerNode)
	case !(o.Scale > 0 && o.Scale <= 100):
		return fault.Usage("--scale %v: use a number above 0, up to 100", o.Scale)
	case o.Interval <= 0:
		return fault.Usage("--interval %s: use a positive time", o.Interval)
	case o.Limit <= 0:
		return fault.Usage("--limit %s: use a positive time", o.Limit)
	}
	return nil
}

// Report is what bellows-lab bench fidelity writes; the fields are a contract.
type Report struct {
	Rows []Row `json:"rows"`
	// MeanError and WorstError are of the rows.
	MeanError  float64 `json:"mean_error"`
	WorstError float64 `json:"worst_error"`
}

// Row compares one mix under one policy.
type Row struct {
	Mix    int    `json:"mix"` // from 1
	Jobs   int    `json:"jobs"`
	Policy string `json:"policy"`
	// RealS and SimulatedS are mean completion times, in seconds; Error is their
	// difference, relative to RealS.
	RealS             float64 `json:"real_s"`
	SimulatedS        float64 `json:"simulated_s"`
	Error             float64 `json:"error"`
	RealRescales      int     `json:"real_rescales"`
	SimulatedRescales int     `json:"simulated_rescales"`
	// StartCostS is what a start cost on the cluster, on average, and AssumedCostS what the simulator took it to cost.
	StartCostS   float64 `json:"start_cost_s"`
	AssumedCostS float64 `json:"assumed_cost_s"`
}

// Run trains each mix under each policy on a cluster of its own, one at a time,
// and then simulates it.
func Run(ctx context.Context, o Options) (Report, error) {
	var report Report
	var all []trained
	var mixes []Mix
	for n := range o.Mixes {
		m := Draw(o.Seed, n+1, o.Nodes*o.DevicesPerNode, o.Scale)
		for _, name := range o.Policies {
			if o.Progress != nil {
				o.Progress(m.Number, o.Mixes, name)
			}
			r, err := onCluster(ctx, &o, m, name)
			if err != nil {
				return Report{}, fmt.Errorf("mix %d with %s: %w", m.Number, name, err)
			}
			all, mixes = append(all, r), append(mixes, m)
			report.Rows = append(report.Rows, Row{
				Mix: m.Number, Jobs: len(m.Jobs), Policy: name,
				RealS: mean(r.completion), RealRescales: r.rescales, StartCostS: mean(tooks(r.costs)),
			})
		}
	}
	for i := range report.Rows {
		row := &report.Rows[i]
		var others []cost
		for k, r := range all {
			if mixes[k].Number != row.Mix {
				others = append(others, r.costs...)
			}
		}
		s, err := simulate(&o, mixes[i], row.Policy, others)
		if err != nil {
			return Report{}, fmt.Errorf("mix %d with %s: %w", row.Mix, row.Policy, err)
		}
		row.SimulatedS, row.AssumedCostS = s.MeanCompletionS, mean(tooks(others))
		row.SimulatedRescales = int(math.Round(s.RescalesPerJob * float64(s.Jobs)))
		row.Error = math.Abs(row.RealS-row.SimulatedS) / row.RealS
		report.MeanError += row.Error / float64(len(report.Rows))
		report.WorstError = max(report.WorstError, row.Error)
	}
	return report, nil
}

// onCluster trains a mix on a cluster that it starts and ends.
func onCluster(ctx context.Context, o *Options, m Mix, name string) (r trained, err error) {
	c, err := start(ctx, o, name)
	if err != nil {
		return trained{}, err
	}
	r, err = c.train(ctx, m)
	if left := c.close(); left != nil {
		return trained{}, left // more than why the mix was not trained: something has to be cleared away
	}
	return r, err
}

// model is what all jobs of a mix are called where start costs go by model.
const model = "fidelity"

// simulate runs a mix in the simulator, in which a start costs what it cost elsewhere.
func simulate(o *Options, m Mix, name string, costs []cost) (sim.Summary, error) {
	p, err := policy.ByName(name)
	if err != nil {
		return sim.Summary{}, err
	}
	cfg := sim.Config{
		Nodes: o.Nodes, DevicesPerNode: o.DevicesPerNode, Policy: p, Interval: o.Interval, Know: sim.KnowSteps,
		RescaleCost: time.Duration(mean(tooks(costs)) * float64(time.Second)), StartCosts: bySize(costs),
	}
	for _, j := range m.Jobs {
		cfg.Jobs = append(cfg.Jobs, sim.Job{
			Arrival: trace.Arrival{ID: j.Name, Submit: j.At, Model: model, Workers: 1},
			Work:    j.Work(), Speed: j.Speeds, MinWorkers: 1, MaxWorkers: 1 << (len(j.Speeds) - 1),
		})
	}
	r, err := sim.Run(cfg)
	if err != nil {
		return sim.Summary{}, err
	}
	return r.Summary(), nil
}

// bySize is the mean cost of a start for each number of workers that was seen.
func bySize(costs []cost) trace.Overhead {
	seen := map[int][]time.Duration{}
	for _, c := range costs {
		seen[c.workers] = append(seen[c.workers], c.took)
	}
	o := trace.Overhead{}
	for workers, took := range seen {
		o[trace.OverheadKey{Workers: workers, Model: model}] = time.Duration(mean(took) * float64(time.Second))
	}
	return o
}

func tooks(costs []cost) (all []time.Duration) {
	for _, c := range costs {
		all = append(all, c.took)
	}
	return all
}

// mean is in seconds; 0 of none.
func mean(all []time.Duration) (s float64) {
	for _, d := range all {
		s += d.Seconds() / float64(len(all))
	}
	return s
}

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/file"
	"github.com/bellows-ml/bellows/lab/plan"
	"github.com/bellows-ml/bellows/lab/plot"
	"github.com/bellows-ml/bellows/lab/trace"
)

func planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Plan what to run before it runs",
		Args:  command.NoSuch,
		RunE:  command.Help,
	}
	cmd.AddCommand(planCapacityCommand())
	return cmd
}

// capacityFlags are those of plan capacity.
type capacityFlags struct {
	catalogue, jobs, trace, profile, device, picture string
	flatten                                          bool
	nodes                                            int
	horizon, start                                   time.Duration
	weight                                           float64
}

func planCapacityCommand() *cobra.Command {
	var o capacityFlags
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Plan which node types to run for a set of jobs, and when",
		Long: `Says which nodes of a catalogue to run and when, what that costs, which jobs would
be late, and how cost and lateness trade off. At each arrival and end, and after
--horizon at the latest, types of nodes and the split of their devices among jobs
are chosen for the least sum of lateness, postponement and execution cost
(Jahani et al., IEEE CCCS 2019), with a certified bound on how far that is from the best.

A catalogue is YAML; prices are of a node, an hour, in any currency:
  nodes:
    - {type: a100x8, gpu: A100, devices: 8, price: 14.5, most: 4}
    - {type: v100x4, gpu: V100, devices: 4, price: 3.8}

So is a file of jobs. Work is hours on one device of speed 1 with a speed for each
GPU model (and scaling: speeds on 1, 2, 4, … devices beside one; or, for models on
which it differs, a list of these in place of the speed), or steps with a model and
batch of --profile. submit and deadline count from the plan's beginning;
weight is what an hour of lateness costs, max how many devices a job can use:
  jobs:
    - {name: bert, hours: 40, speeds: {A100: [1, 1.9, 3.6], V100: 0.5}, deadline: 48h, weight: 2}
    - {name: resnet, steps: 90000, model: resnet50, batch: 256, submit: 3h, deadline: 30h}

Instead, --trace takes a trace as simulate reads them; its durations are of --device
of --profile. A GPU model of the catalogue is one that jobs or profile name.
A job runs on one node at a time.`,
		Example: "  bellows plan capacity --catalogue nodes.yaml --jobs jobs.yaml --plot curve.svg",
		Args:    command.Exactly(),
	}
	f := cmd.Flags()
	f.StringVar(&o.catalogue, "catalogue", "", "file of the node types that can be run")
	f.StringVar(&o.jobs, "jobs", "", "file of jobs")
	f.StringVar(&o.trace, "trace", "", "job trace, as simulate reads them")
	f.StringVar(&o.profile, "profile", "", "speeds of models on GPUs, as simulate reads them")
	f.StringVar(&o.device, "device", "", "which GPU of the profile the trace's durations are of")
	f.BoolVar(&o.flatten, "flatten", false, "where a profile's curve falls, leave the surplus devices idle instead of refusing it")
	f.IntVar(&o.nodes, "nodes", 0, "how many nodes may run at once (0 = as many as there are jobs)")
	f.DurationVar(&o.horizon, "horizon", time.Hour, "the longest time between two decisions")
	f.DurationVar(&o.start, "start-cost", 2*time.Minute, "how long a job trains nothing when it starts, moves or changes its number of devices")
	f.Float64Var(&o.weight, "weight", plan.DefaultWeight, "what an hour of lateness costs, for jobs of a trace")
	f.StringVar(&o.picture, "plot", "", "also draw cost against lateness, as .svg or .html")
	out := command.OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := o.check(); err != nil {
			return err
		}
		r, err := o.plan()
		if err != nil {
			return err
		}
		if o.picture != "" {
			if err := plot.WriteCurve(o.picture, costCurve(r)); err != nil {
				return err
			}
		}
		return out.Write(os.Stdout, r, func() error { return writeCapacity(os.Stdout, r, output.StyleOf(os.Stdout)) })
	}
	return cmd
}

// check says everything that is wrong with the flags.
func (o *capacityFlags) check() error {
	var faults fault.List
	if o.catalogue == "" {
		faults.Usage("--catalogue is missing: name the file of node types")
	}
	if (o.jobs == "") == (o.trace == "") {
		faults.Usage("give --jobs or --trace, one of the two")
	}
	if o.nodes < 0 {
		faults.Usage("--nodes %d: use 1 or more, or 0 for as many as there are jobs", o.nodes)
	}
	if o.horizon < time.Minute {
		faults.Usage("--horizon %v: use a minute or more", o.horizon)
	}
	if o.start < 0 {
		faults.Usage("--start-cost %v: use 0s or more", o.start)
	}
	if !(o.weight > 0) || math.IsInf(o.weight, 0) {
		faults.Usage("--weight %v: use a number above 0", o.weight)
	}
	faults.Add(plot.CheckName(o.picture))
	return faults.Err()
}

// plan reads the files and plans.
func (o *capacityFlags) plan() (plan.Report, error) {
	var faults fault.List
	c, err := file.Read(o.catalogue, readAll(plan.ReadCatalogue))
	faults.Add(err)
	var demands []plan.Demand
	if o.jobs != "" {
		demands, err = file.Read(o.jobs, readAll(plan.ReadDemands))
	} else {
		var f trace.File
		f, err = file.Read(o.trace, trace.Read)
		demands = plan.FromTrace(f)
		for i := range demands {
			demands[i].Weight = o.weight
		}
	}
	faults.Add(err)
	s := plan.Speeds{Device: o.device}
	if o.profile != "" {
		falling := trace.Refuse
		if o.flatten {
			falling = trace.Flatten
		}
		s.Profile, err = file.Read(o.profile, func(name string, r io.Reader) (trace.Profile, error) { return trace.ReadProfile(name, r, falling) })
		faults.Add(err)
	}
	if err = faults.Err(); err != nil {
		return plan.Report{}, err
	}
	jobs, err := plan.Jobs(c, demands, s)
	if err != nil {
		return plan.Report{}, err
	}
	options := plan.Options{Nodes: o.nodes, Horizon: o.horizon.Hours(), Start: o.start.Hours()}
	chosen, err := plan.Run(c, jobs, options)
	if err != nil {
		return plan.Report{}, err
	}
	curve, err := plan.Curve(c, jobs, options)
	if err != nil {
		return plan.Report{}, err
	}
	return plan.NewReport(c, chosen, curve), nil
}

// maxPlanFile bounds what is read of a catalogue or a file of jobs.
const maxPlanFile = 16 << 20

// readAll makes a reader of files of one that takes their text.
func readAll[T any](read func(name string, text []byte) (T, error)) func(name string, r io.Reader) (T, error) {
	return func(name string, r io.Reader) (v T, err error) {
		text, err := io.ReadAll(io.LimitReader(r, maxPlanFile+1))
		switch {
		case err != nil:
			return v, fmt.Errorf("read %s: %w", name, fault.Reason(err))
		case len(text) > maxPlanFile:
			return v, fault.Usage("%s: it has more than %d bytes: split it", name, maxPlanFile)
		}
		return read(name, text)
	}
}

func costCurve(r plan.Report) plot.Curve {
	c := plot.Curve{Title: "What less lateness costs", X: "lateness of all jobs, hours", Y: "cost of nodes"}
	for _, p := range r.Curve {
		c.Points = append(c.Points, plot.CurvePoint{X: p.LateHours, Y: p.Cost, Label: urgencyText(p.Urgency) + ", " + strconv.Itoa(p.LateJobs) + " late", Bold: p.Urgency == 1})
	}
	return c
}

func urgencyText(u float64) string {
	if u == 1 {
		return "as planned"
	}
	return "weights × " + strconv.FormatFloat(u, 'g', -1, 64)
}

func writeCapacity(w io.Writer, r plan.Report, s output.Style) error {
	if _, err := fmt.Fprintf(w, "Nodes cost %.2f; %d of %d jobs are late, by %.1f hours in all; the last ends at %s.\nDecisions are at most %.3f %% from the best (%d of them).\n\n",
		r.Cost, r.LateJobs, len(r.Jobs), r.LateHours, plan.Clock(r.EndH), r.GapPercent, r.Decisions); err != nil {
		return err
	}
	nodes := output.Table{Head: []string{"TYPE", "GPU", "DEVICES", "PRICE", "HOURS", "AT MOST", "COST"}}
	for _, n := range r.Nodes {
		if n.Hours > 0 {
			nodes.Add(n.Name, n.GPU, strconv.Itoa(n.Devices), fmt.Sprintf("%.2f", n.Price), fmt.Sprintf("%.1f", n.Hours), strconv.Itoa(n.Peak), fmt.Sprintf("%.2f", n.Cost))
		}
	}
	phases := output.Table{Head: []string{"FROM", "TO", "NODES"}}
	for _, p := range r.Phases {
		phases.Add(plan.Clock(p.FromH), plan.Clock(p.ToH), output.OrDash(nodesText(p.Nodes)))
	}
	late := output.Table{Head: []string{"LATE JOB", "DEADLINE", "END", "LATE"}}
	jobs := slices.Clone(r.Jobs)
	slices.SortStableFunc(jobs, func(a, b plan.JobReport) int { return cmp.Compare(b.LateH, a.LateH) })
	for _, j := range jobs {
		if j.LateH > 0 && j.DeadlineH != nil {
			late.Add(j.Name, plan.Clock(*j.DeadlineH), plan.Clock(j.EndH), plan.Clock(j.LateH))
		}
	}
	curve := output.Table{Head: []string{"LATENESS COUNTS", "COST", "LATE HOURS", "LATE JOBS"}}
	for _, p := range r.Curve {
		curve.Add(urgencyText(p.Urgency), fmt.Sprintf("%.2f", p.Cost), fmt.Sprintf("%.1f", p.LateHours), strconv.Itoa(p.LateJobs))
	}
	tables := []output.Table{nodes, phases, late, curve}
	if r.LateJobs == 0 {
		tables = slices.Delete(tables, 2, 3)
	}
	for i, t := range tables {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := t.Write(w, s); err != nil {
			return err
		}
	}
	return nil
}

func nodesText(nodes map[string]int) string {
	var out []string
	for name, n := range nodes {
		out = append(out, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

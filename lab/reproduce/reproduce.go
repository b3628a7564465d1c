package reproduce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/lab/batch"
)

// Report is what bellows-lab reproduce writes; the fields are a contract.
type Report struct {
	Experiment string    `json:"experiment"`
	Rows       []Finding `json:"rows"`
	Commands   []Command `json:"commands"`
}

// Finding is one figure next to the published one.
type Finding struct {
	Figure    string   `json:"figure"`
	Trace     string   `json:"trace"`
	Nodes     int      `json:"nodes"`
	Policy    string   `json:"policy"`
	Quantity  string   `json:"quantity"`
	Ours      float64  `json:"ours"`
	Published *float64 `json:"published"`          // null where nothing was
	Percent   *float64 `json:"difference_percent"` // from the published one
	Note      string   `json:"note,omitempty"`     // what the published figure is, where it is not the same quantity
	Command   int      `json:"command"`            // index into commands
}

// Command is one command of bellows-lab simulate.
type Command struct {
	Seed uint64 `json:"seed"`
	Text string `json:"text"`
}

// trial is one simulate command of an experiment and what is read from its runs.
type trial struct {
	args []string
	read func(runs []*batch.Run) []Finding
}

// experiments are what can be reproduced: the trials of each, from the folder of the traces.
func experiments() map[string]func(dir string, quick bool) ([]trial, error) {
	return map[string]func(string, bool) ([]trial, error){
		"elasticflow": elasticFlowTrials, "hu": huTrials, "muri": muriTrials, "pollux": polluxTrials, "saxena": saxenaTrials,
		"wei": weiTrials,
	}
}

// drawn are those that no simulate command makes: their instances are drawn, and decided about directly.
func drawn() map[string]func(context.Context, Options) (Report, error) {
	return map[string]func(context.Context, Options) (Report, error){"jahani": jahani}
}

// Names lists the experiments.
func Names() []string {
	names := slices.Collect(maps.Keys(experiments()))
	return slices.Sorted(slices.Values(slices.AppendSeq(names, maps.Keys(drawn()))))
}

// Options say how an experiment is run.
type Options struct {
	Traces string // the folder of the published traces
	Quick  bool   // only a part, within a minute
	// Parse reads the arguments of bellows-lab simulate into settings that are complete.
	Parse    func(args []string) (*batch.Settings, error)
	Progress batch.Progress // may be nil
}

// Run runs the trials of an experiment of Names together, on all cores.
func Run(ctx context.Context, name string, o Options) (Report, error) {
	if direct, ok := drawn()[name]; ok {
		return direct(ctx, o)
	}
	r := Report{Experiment: name}
	trials, err := experiments()[name](o.Traces, o.Quick)
	if err != nil {
		return r, withTraces(err)
	}
	var all []*batch.Run
	parts := make([][]*batch.Run, len(trials))
	for i, t := range trials {
		s, err := o.Parse(t.args)
		if err == nil {
			parts[i], err = s.Runs()
		}
		if err != nil {
			return r, withTraces(fmt.Errorf("bellows-lab simulate %s: %w", strings.Join(t.args, " "), err))
		}
		r.Commands = append(r.Commands, Command{Seed: s.Model.Seed, Text: "bellows-lab simulate " + strings.Join(t.args, " ")})
		all = append(all, parts[i]...)
	}
	if err := batch.Execute(ctx, all, o.Progress); err != nil {
		return r, err
	}
	for i, t := range trials {
		batch.Compare(parts[i])
		for _, f := range t.read(parts[i]) {
			f.Command, f.Trace = i, filepath.Base(f.Trace)
			if f.Published != nil {
				percent := 100 * (f.Ours/(*f.Published) - 1)
				f.Percent = &percent
			}
			r.Rows = append(r.Rows, f)
		}
	}
	return r, nil
}

// finding begins a row about a run.
func finding(r *batch.Run, figure, quantity string, value float64) Finding {
	return Finding{Figure: figure, Trace: r.Trace, Nodes: r.Nodes, Policy: r.Policy, Quantity: quantity, Ours: value}
}

// against adds the published figure to a row; nil = there is none.
func (f Finding) against(published *float64) Finding {
	f.Published = published
	return f
}

// withTraces adds where traces that are missing can be had.
func withTraces(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w\n(--traces names a folder with elasticflow/, philly/, muri/, pollux/ and profiles/; they are made from github.com/petuum/adaptdl, "+
		"branch osdi21-artifact, simulator/traces/philly.csv and simulator/workloads*, from github.com/Rivendile/Muri, simulator/trace-data, "+
		"and from github.com/pkusys/ElasticFlow, traces_for_ElasticFlow)", err)
}

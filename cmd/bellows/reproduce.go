package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/output"
)

// reproduction is what reproduce writes; the fields are a contract.
type reproduction struct {
	Experiment string     `json:"experiment"`
	Rows       []finding  `json:"rows"`
	Commands   []commandN `json:"commands"`
}

// finding is one figure of ours next to the published one.
type finding struct {
	Figure    string   `json:"figure"`
	Trace     string   `json:"trace"`
	Nodes     int      `json:"nodes"`
	Policy    string   `json:"policy"`
	Quantity  string   `json:"quantity"`
	Ours      float64  `json:"ours"`
	Published *float64 `json:"published"`          // null where nothing was
	Percent   *float64 `json:"difference_percent"` // of ours from the published one
	Note      string   `json:"note,omitempty"`     // what the published one is, if it is not quite this
	Command   int      `json:"command"`            // index into commands
}

// commandN is one run of simulate.
type commandN struct {
	Seed uint64 `json:"seed"`
	Text string `json:"text"`
}

// trial is one simulate command of an experiment and what is read off it.
type trial struct {
	args []string
	read func(runs []*simulated) []finding
}

// experiments are what can be reproduced: the trials of each, from the folder of the traces.
func experiments() map[string]func(dir string, quick bool) ([]trial, error) {
	return map[string]func(string, bool) ([]trial, error){
		"elasticflow": elasticFlowTrials, "hu": huTrials, "muri": muriTrials, "pollux": polluxTrials,
	}
}

func reproduceCommand() *cobra.Command {
	var dir string
	var quick bool
	names := slices.Sorted(maps.Keys(experiments()))
	cmd := &cobra.Command{
		Use:   "reproduce " + strings.Join(names, "|"),
		Short: "Make published experiments again, next to the published values",
		Long: `Runs the experiments of a paper in the simulator and writes each figure next to the
published one, with the simulate commands that give the same:

  elasticflow  the baselines of ElasticFlow's simulator (ASPLOS 2023) on its
          traces: how many deadlines are kept
  hu      Hu et al., section 5, figures 9 to 16: queueing and total time, jobs
          finished beyond greedy's 100, all jobs instead of the long ones, wrong
          estimates, bugs and impatient users, a delay of each start, decision
          times; with a pause of 30 s at each start, and without as theirs. Their trace is not public: Philly windows and a load drawn like
          theirs stand for it, so shapes compare, not values
  muri    the policies of Muri's simulator (SIGCOMM 2022) on its traces
  pollux  the baselines of Pollux's simulator (OSDI 2021) on its workloads

--traces is a folder with elasticflow, philly, muri, pollux and profiles below it.
They take all cores: of one core pollux half a minute, elasticflow 10 minutes, hu
27, muri half an hour. --quick makes a part of each within a minute.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return fault.Usage("reproduce: name one of %s", strings.Join(names, ", "))
			}
			return nil
		},
		ValidArgs: names,
	}
	cmd.Flags().StringVar(&dir, "traces", "traces", "the folder of the published traces")
	cmd.Flags().BoolVar(&quick, "quick", false, "fewer sizes, traces and policies")
	out := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		trials, err := experiments()[args[0]](dir, quick)
		if err != nil {
			return err
		}
		r, err := reproduce(cmd.Context(), args[0], trials)
		if err != nil {
			return withTraces(err)
		}
		return out.Write(os.Stdout, r, func() error { return writeReproduction(os.Stdout, r, output.StyleOf(os.Stdout)) })
	}
	return cmd
}

// reproduce runs all trials together, on all cores.
func reproduce(ctx context.Context, name string, trials []trial) (reproduction, error) {
	r := reproduction{Experiment: name}
	var all []*simulated
	parts := make([][]*simulated, len(trials))
	for i, t := range trials {
		var s simulation
		flags := pflag.NewFlagSet("simulate", pflag.ContinueOnError)
		s.flags(flags)
		err := flags.Parse(t.args)
		if err == nil {
			err = s.check(flags)
		}
		if err == nil {
			parts[i], err = s.runs()
		}
		if err != nil {
			return r, fmt.Errorf("bellows simulate %s: %w", strings.Join(t.args, " "), err)
		}
		r.Commands = append(r.Commands, commandN{Seed: s.model.Seed, Text: "bellows simulate " + strings.Join(t.args, " ")})
		all = append(all, parts[i]...)
	}
	if _, err := runAll(ctx, all, output.StyleOf(os.Stderr)); err != nil {
		return r, err
	}
	for i, t := range trials {
		compare(parts[i])
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

// withTraces says where traces can be had that are not there.
func withTraces(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w\n(--traces names a folder with elasticflow/, philly/, muri/, pollux/ and profiles/; they are made from github.com/petuum/adaptdl, "+
		"branch osdi21-artifact, simulator/traces/philly.csv and simulator/workloads*, from github.com/Rivendile/Muri, simulator/trace-data, "+
		"and from github.com/pkusys/ElasticFlow, traces_for_ElasticFlow)", err)
}

func writeReproduction(w io.Writer, r reproduction, s output.Style) error {
	t := output.Table{Head: []string{"FIGURE", "NODES", "POLICY", "QUANTITY", "OURS", "PUBLISHED", "DIFFERENCE", "TRACE"}}
	for _, f := range r.Rows {
		published, difference := "-", "-"
		if f.Published != nil {
			published = short(*f.Published)
			difference = fmt.Sprintf("%+.2f %%", *f.Percent)
		}
		if f.Note != "" {
			difference = f.Note
		}
		t.Add(f.Figure, strconv.Itoa(f.Nodes), f.Policy, f.Quantity, short(f.Ours), published, difference, f.Trace)
	}
	if err := t.Write(w, s); err != nil {
		return err
	}
	for i, c := range r.Commands {
		head := ""
		if i == 0 {
			head = "\nThe same by hand:\n"
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", head, c.Text); err != nil {
			return err
		}
	}
	return nil
}

// short writes a number with as many digits as it has to say.
func short(v float64) string {
	if v >= 1000 || v <= -1000 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

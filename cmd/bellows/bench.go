package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/milp"
)

// instance is a rolling-horizon problem as a file has it: demand in node-hours,
// the length of a step in hours, and speeds beside counts.
type instance struct {
	Nodes  int           `json:"nodes"`
	P      float64       `json:"p"`
	Steps  int           `json:"steps"`
	Counts []int         `json:"counts"`
	Jobs   []instanceJob `json:"jobs"`
}

type instanceJob struct {
	D     float64   `json:"d"`
	NMin  int       `json:"nmin"`
	NMax  int       `json:"nmax"`
	Speed []float64 `json:"speed"`
}

// answer is what bench allocate prints; the fields are a contract.
type answer struct {
	Plan      [][]int `json:"plan"` // by job: its count in each step
	Objective float64 `json:"objective"`
	Bound     float64 `json:"bound"`
	Proved    bool    `json:"proved"`
	*compared         // with --solver
}

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure parts of Bellows by themselves",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchAllocateCommand())
	return cmd
}

func benchAllocateCommand() *cobra.Command {
	var file string
	var repeat int
	var ref reference
	cmd := &cobra.Command{
		Use:   "allocate",
		Short: "Solve one rolling-horizon allocation on one thread",
		Long: `Solves an allocation as hu does at each interval and prints the plan, its value,
a certified bound, and whether the plan is proved to be optimal. It runs on one
thread, so that its processor time can be measured from outside.

--solver has the same problem solved by a mixed-integer solver instead, and
prints its plan with our certified bound, what ours is worth, and which one is
better; both are valued anew from their counts. highs runs inside this process
(scripts/setup solver fetches it); cbc is the program of Debian's package
coinor-cbc. --model says how the problem is put to it: paper is the model of
Hu et al., section 4.4, tight has one binary variable for each choice.
--write-model writes that as a file in the LP format besides.`,
		Args: exactly(),
	}
	f := cmd.Flags()
	f.StringVar(&file, "instance", "", "the problem, as JSON: nodes, p, steps, counts, jobs of d, nmin, nmax, speed")
	f.IntVar(&repeat, "repeat", 1, "solve it so many times and print the last")
	f.StringVar(&ref.solver, "solver", solverOwn, "who solves it: own, highs or cbc")
	f.StringVar(&ref.model, "model", string(milp.Tight), "how highs and cbc are asked, and what is written: tight or paper")
	f.DurationVar(&ref.limit, "limit", time.Minute, "how long highs or cbc may take each time")
	f.StringVar(&ref.write, "write-model", "", "write the model to this file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case file == "":
			return fault.Usage("--instance is missing: give a file")
		case repeat < 1:
			return fault.Usage("--repeat %d: use 1 or more", repeat)
		}
		if err := ref.check(); err != nil {
			return err
		}
		in, err := readFrom(file, readInstance)
		if err != nil {
			return err
		}
		a, err := in.answer(cmd.Context(), &ref, repeat)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return json.NewEncoder(os.Stdout).Encode(a)
	}
	return cmd
}

// answer solves the instance by whom the flags name.
func (in instance) answer(ctx context.Context, ref *reference, repeat int) (answer, error) {
	p := in.problem()
	if ref.write != "" {
		if err := ref.writeModel(p); err != nil {
			return answer{}, err
		}
	}
	if ref.solver != solverOwn {
		return ref.solve(ctx, p, repeat)
	}
	runtime.GOMAXPROCS(1)
	return solveOwn(p, repeat)
}

func readInstance(name string, r io.Reader) (in instance, err error) {
	d := json.NewDecoder(r)
	if err := d.Decode(&in); err != nil {
		return in, fmt.Errorf("read %s: %w: is it an instance in JSON?", name, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return in, fmt.Errorf("read %s: more follows the instance: give one a file", name)
	}
	return in, nil
}

// problem states the instance as the solver takes it. A largest count between two of Counts is the lower one.
func (in instance) problem() *solve.Problem {
	p := &solve.Problem{Devices: in.Nodes, Steps: in.Steps, Step: in.P, Counts: in.Counts}
	for _, j := range in.Jobs {
		most := j.NMax
		for _, c := range in.Counts {
			if c <= j.NMax {
				most = c
			}
		}
		p.Jobs = append(p.Jobs, solve.Job{Work: j.D, Min: j.NMin, Max: most, Speeds: j.Speed, Present: -1})
	}
	return p
}

// solveOwn solves it several times over; what it prints is checked by the value of its counts alone.
func solveOwn(p *solve.Problem, repeat int) (answer, error) {
	var s solve.Solver
	var r solve.Result
	for range repeat {
		var err error
		if r, err = s.Solve(p, solve.Options{}); err != nil {
			return answer{}, err
		}
	}
	value, err := solve.Eval(p, r.Plan)
	if err != nil {
		return answer{}, fmt.Errorf("check the plan: %w", err)
	}
	return answer{Plan: rows(p, r.Plan), Objective: value, Bound: r.Bound, Proved: r.Proved}, nil
}

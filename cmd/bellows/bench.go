package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/allocator/solve"
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
	cmd := &cobra.Command{
		Use:   "allocate",
		Short: "Solve one rolling-horizon allocation on one thread",
		Long: `Solves an allocation as hu does at each interval and prints the plan, its value,
a certified bound, and whether the plan is proved to be optimal. It runs on one
thread, so that its processor time can be measured from outside.`,
		Args: exactly(),
	}
	cmd.Flags().StringVar(&file, "instance", "", "the problem, as JSON: nodes, p, steps, counts, jobs of d, nmin, nmax, speed")
	cmd.Flags().IntVar(&repeat, "repeat", 1, "solve it so many times and print the last")
	cmd.RunE = func(*cobra.Command, []string) error {
		switch {
		case file == "":
			return usage("--instance is missing: give a file")
		case repeat < 1:
			return usage("--repeat %d: use 1 or more", repeat)
		}
		runtime.GOMAXPROCS(1)
		in, err := readFrom(file, readInstance)
		if err != nil {
			return err
		}
		a, err := in.solve(repeat)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return json.NewEncoder(os.Stdout).Encode(a)
	}
	return cmd
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

// solve solves it several times over; what it prints is checked by the value of its counts alone.
func (in instance) solve(repeat int) (answer, error) {
	p := in.problem()
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
	a := answer{Plan: make([][]int, 0, len(p.Jobs)), Objective: value, Bound: r.Bound, Proved: r.Proved}
	for i := range p.Jobs {
		a.Plan = append(a.Plan, r.Plan[i*p.Steps:(i+1)*p.Steps])
	}
	return a, nil
}

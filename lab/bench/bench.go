package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/bellows-ml/bellows/allocator/solve"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/file"
	"github.com/bellows-ml/bellows/lab/milp"
)

// Instance is a rolling-horizon problem as a file has it: demand in node-hours,
// the length of a step in hours, and speeds beside counts.
type Instance struct {
	Nodes  int     `json:"nodes"`
	P      float64 `json:"p"`
	Steps  int     `json:"steps"`
	Counts []int   `json:"counts"`
	Jobs   []Job   `json:"jobs"`
}

// Job is one job of an instance.
type Job struct {
	D     float64   `json:"d"`
	NMin  int       `json:"nmin"`
	NMax  int       `json:"nmax"`
	Speed []float64 `json:"speed"`
}

// Answer is what bench allocate prints; the fields are a contract.
type Answer struct {
	Plan      [][]int `json:"plan"` // by job: its count in each step
	Objective float64 `json:"objective"`
	Bound     float64 `json:"bound"`
	Proved    bool    `json:"proved"`
	*Compared         // with another solver
}

// Options say who solves an instance, and how often.
type Options struct {
	Repeat     int    // how often; the last answer counts
	Solver     string // milp.Own, or a reference
	Model      string // how a reference is asked, and what is written: milp.Tight or milp.Paper
	Limit      time.Duration
	WriteModel string // a file to write the model to; empty = none
}

// Check finds what is wrong with the options, as values of the flags of bench allocate.
func (o *Options) Check() error {
	if err := milp.CheckName(o.Solver); err != nil {
		return fault.AsUsage(err)
	}
	switch {
	case o.Repeat < 1:
		return fault.Usage("--repeat %d: use 1 or more", o.Repeat)
	case o.Model != string(milp.Tight) && o.Model != string(milp.Paper):
		return fault.Usage("--model %q: use %s or %s", o.Model, milp.Tight, milp.Paper)
	case o.Limit <= 0:
		return fault.Usage("--limit %s: use a positive time", o.Limit)
	}
	return nil
}

// Allocate solves the instance in a file.
func Allocate(ctx context.Context, name string, o Options) (Answer, error) {
	in, err := file.Read(name, readInstance)
	if err != nil {
		return Answer{}, err
	}
	a, err := in.solve(ctx, o)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

func (in Instance) solve(ctx context.Context, o Options) (Answer, error) {
	p := in.problem()
	if o.WriteModel != "" {
		if err := o.writeModel(p); err != nil {
			return Answer{}, err
		}
	}
	if o.Solver != milp.Own {
		return o.refer(ctx, p)
	}
	runtime.GOMAXPROCS(1) // so that its processor time can be measured from outside
	return solveOwn(p, o.Repeat)
}

func readInstance(name string, r io.Reader) (in Instance, err error) {
	d := json.NewDecoder(r)
	if err := d.Decode(&in); err != nil {
		return in, fmt.Errorf("read %s: %w: is it an instance in JSON?", name, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return in, fmt.Errorf("read %s: more follows the instance: give one a file", name)
	}
	return in, nil
}

// problem is the instance as the solver takes it. A largest count between two of Counts becomes the lower one.
func (in Instance) problem() *solve.Problem {
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

// solveOwn solves the problem repeat times; the objective is computed from the counts of the last plan alone.
func solveOwn(p *solve.Problem, repeat int) (Answer, error) {
	var s solve.Solver
	var r solve.Result
	for range repeat {
		var err error
		if r, err = s.Solve(p, solve.Options{}); err != nil {
			return Answer{}, err
		}
	}
	value, err := solve.Eval(p, r.Plan)
	if err != nil {
		return Answer{}, fmt.Errorf("check the plan: %w", err)
	}
	return Answer{Plan: rows(p, r.Plan), Objective: value, Bound: r.Bound, Proved: r.Proved}, nil
}

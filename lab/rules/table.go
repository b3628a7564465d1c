// Package rules is the table of the conventions of other simulators, which the
// packages below it implement. A batch of simulations takes them as they are
// (batch.Lab), so that a program without them has none of their code.
package rules

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/file"
	"github.com/bellows-ml/bellows/lab/rules/elasticflow"
	"github.com/bellows-ml/bellows/lab/rules/muri"
	"github.com/bellows-ml/bellows/lab/rules/pollux"
	"github.com/bellows-ml/bellows/lab/rules/saxena"
	"github.com/bellows-ml/bellows/lab/rules/wei"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Table is the conventions of other simulators, by the value of --rules.
func Table() map[string]batch.RuleSet {
	free := func(s *batch.Settings) { s.RescaleCost, s.StartDelay = 0, 0 }
	return map[string]batch.RuleSet{
		"elasticflow": {About: `a decision a minute at most (--interval), fixed batches, measured
        speeds, deadlines; --profile is its table of speeds
        (default: elasticflow_a100.csv in profiles beside the trace's folder)`, Promises: true, Policies: elasticflow.Policies(), Fill: fillElasticFlow, Complete: func(s *batch.Settings, given func(string) bool) {
			if !given("interval") {
				s.Interval = time.Minute
			}
			free(s)
		}},
		"muri": {About: "rigid jobs, decisions at each event, its start costs; --profile is a table of others", Policies: muri.Policies(), Fill: fillMuri, Complete: func(s *batch.Settings, _ func(string) bool) {
			s.Model.Rigid = true
			free(s)
		}},
		"pollux": {About: `decisions once a minute, measured steps and batches, 30 s a move;
        --profile is the folder with its four tables
        (default: profiles beside the trace's folder)`, Policies: pollux.Policies(), Fill: fillPollux, Ranges: true, Complete: func(s *batch.Settings, _ func(string) bool) {
			s.Interval = time.Minute
			free(s)
		}},
		"saxena": {About: `decisions every 8 minutes (--interval), batch ranges, 2 devices a node,
        starts that cost nothing; --trace bursts-8h-0.9 draws its load`, Policies: saxena.Policies(), Fill: fillSaxena, Draws: drawnBySaxena, Complete: func(s *batch.Settings, given func(string) bool) {
			if !given("interval") {
				s.Interval = 8 * time.Minute
			}
			if !given("devices-per-node") {
				s.DevicesPerNode = 2
			}
			free(s)
		}},
		"wei": {About: `tasks that tell their losses, starts that cost nothing, decisions every second
        (--interval), 4 devices a node; --trace is one of its own loads, ` + strings.Join(wei.Loads()[:2], ", ") + " …", Fill: fillWei, Draws: func(string) bool { return true }, Complete: func(s *batch.Settings, given func(string) bool) {
			if !given("interval") {
				s.Interval = time.Second
			}
			if !given("devices-per-node") {
				s.DevicesPerNode = 4
			}
			free(s)
		}},
	}
}

func fillWei(_ *batch.Settings, r *batch.Run, _ trace.File) (out batch.Filling, err error) {
	out.Jobs, out.Terms, err = wei.Read(r.Trace)
	return out, err
}

func drawnBySaxena(name string) bool { return strings.HasPrefix(name, saxena.Bursts) }

func fillMuri(s *batch.Settings, r *batch.Run, f trace.File) (out batch.Filling, err error) {
	overhead := muri.Overhead()
	if s.Profile != "" {
		if overhead, err = file.Read(s.Profile, trace.ReadOverhead); err != nil {
			return out, err
		}
	}
	in := muri.Setup{Machines: s.Machines(r.Nodes), Overhead: overhead, Model: s.Model}
	if !s.Own(r.Policy) {
		out.Jobs, out.Terms, err = muri.Terms(f, in)
		return out, err
	}
	out.Rules, out.Jobs, err = muri.New(r.Policy, f, in)
	return out, err
}

func fillSaxena(s *batch.Settings, r *batch.Run, f trace.File) (out batch.Filling, err error) {
	in := saxena.Setup{Machines: s.Machines(r.Nodes), Delta: s.Interval}
	load, drawn, err := saxena.ReadLoad(r.Trace)
	switch {
	case err != nil:
		return out, err
	case drawn:
		f = load.Draw(s.Model.Seed, in.Machines)
	}
	if !s.Own(r.Policy) {
		out.Jobs, out.Terms, err = saxena.Terms(f, in)
		return out, err
	}
	out.Rules, out.Jobs, err = saxena.New(r.Policy, f, in)
	return out, err
}

func fillElasticFlow(s *batch.Settings, r *batch.Run, f trace.File) (out batch.Filling, err error) {
	name := s.Profile
	if name == "" {
		name = filepath.Join(filepath.Dir(r.Trace), "..", "profiles", "elasticflow_a100.csv")
	}
	in := elasticflow.Setup{Machines: s.Machines(r.Nodes), Slot: s.Interval, Device: s.Device}
	if in.Profile, err = file.Read(name, func(name string, r io.Reader) (trace.Profile, error) {
		return trace.ReadProfile(name, r, trace.Keep)
	}); err != nil {
		return out, fmt.Errorf("%w\n(the rules elasticflow need the speeds that its simulator ships, scheduler/throughputs_A100 and throughputs_T4 of "+
			"github.com/pkusys/ElasticFlow, as gpu_type,model,global_batch,gpus,iters_per_s; --profile names the table)", err)
	}
	if !s.Own(r.Policy) {
		out.Jobs, out.Terms, err = elasticflow.Terms(f, in, s.Rigid(r.Policy))
		return out, err
	}
	out.Rules, out.Jobs, err = elasticflow.New(r.Policy, f, in)
	return out, err
}

func fillPollux(s *batch.Settings, r *batch.Run, f trace.File) (out batch.Filling, err error) {
	folder := s.Profile
	switch info, missing := os.Stat(folder); {
	case folder == "":
		folder = filepath.Join(filepath.Dir(r.Trace), "..", "profiles")
	case missing != nil:
		return out, fmt.Errorf("--profile %s: %w: give the folder of the Pollux simulator's tables", folder, fault.Reason(missing))
	case !info.IsDir():
		folder = filepath.Dir(folder)
	}
	models, err := readPollux(folder)
	if err != nil {
		return out, err
	}
	in := pollux.Setup{Machines: s.Machines(r.Nodes), Models: models}
	switch {
	case s.Own(r.Policy):
	case s.BatchRanges:
		out.Jobs, out.Terms, err = pollux.Ranges(f, in)
		return out, err
	default:
		out.Jobs, out.Terms, err = pollux.Terms(f, in, s.Rigid(r.Policy))
		return out, err
	}
	out.Rules, out.Jobs, err = pollux.New(r.Policy, f, in)
	return out, err
}

// readPollux reads the four tables of the Pollux simulator.
func readPollux(folder string) (trace.PolluxModels, error) {
	models, err := file.Read(filepath.Join(folder, "pollux_app_params.csv"), trace.ReadPolluxModels)
	if err != nil {
		return nil, withPolluxSource(err)
	}
	for _, table := range []struct {
		name string
		read func(string, io.Reader) error
	}{
		{"pollux_statistical_efficiency.csv", models.ReadRuns},
		{"pollux_t4_placements.csv", models.ReadPlacements},
		{"pollux_t4_scalability.csv", models.ReadWide},
	} {
		name := filepath.Join(folder, table.name)
		if _, err := os.Stat(name); err != nil {
			name += ".gz"
		}
		_, err := file.Read(name, func(name string, r io.Reader) (struct{}, error) {
			return struct{}{}, table.read(name, r)
		})
		if err != nil {
			return nil, withPolluxSource(err)
		}
	}
	return models, nil
}

// withPolluxSource adds where a table that is missing can be had.
func withPolluxSource(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w\n(the tables are made from simulator/traces of github.com/petuum/adaptdl, branch osdi21-artifact; --profile names their folder)", err)
}

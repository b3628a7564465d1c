package main

import (
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
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/lab/rules/elasticflow"
	"github.com/bellows-ml/bellows/lab/rules/muri"
	"github.com/bellows-ml/bellows/lab/rules/pollux"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// ruleSet is what --rules makes of a simulation.
type ruleSet struct {
	// policies are those that the rules know; nil = those of production.
	policies []string
	// take sets what the rules fix, and unless a flag is given also what they prefer.
	take func(s *simulation, unless func(flag string, set func()))
	// jobs fills in what is to be run: jobs, and who decides; nil = as in production.
	jobs func(s *simulation, r *simulated, f trace.File) error
}

// ruleSets is the list of rules; the empty name stands for our own.
func ruleSets() map[string]ruleSet {
	fixed := func(s *simulation, _ func(string, func())) {
		s.model.Rigid, s.interval, s.rescaleCost, s.startDelay = true, 0, 0, 0
	}
	return map[string]ruleSet{
		"": {},
		"hu": {take: func(s *simulation, unless func(string, func())) {
			unless("shortest", func() { s.model.Shortest = 5 * time.Minute })
			unless("longest", func() { s.model.Longest = 72 * time.Hour })
		}},
		"elasticflow": {policies: elasticflow.Policies(), take: func(s *simulation, unless func(string, func())) {
			unless("interval", func() { s.interval = time.Minute })
			s.rescaleCost, s.startDelay = 0, 0
		}, jobs: (*simulation).elasticFlow},
		"muri":   {policies: muri.Policies(), take: fixed, jobs: (*simulation).muri},
		"pollux": {policies: pollux.Policies(), take: fixed, jobs: (*simulation).pollux},
	}
}

// ruleNames lists what --rules takes.
func ruleNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(ruleSets())), func(name string) bool { return name == "" })
}

// known names the policies that can be asked for.
func (s *simulation) known() []string {
	if own := ruleSets()[s.rules].policies; own != nil {
		return own
	}
	return policy.Names()
}

// runs makes the combinations, traces first.
func (s *simulation) runs() ([]*simulated, error) {
	if err := s.readTables(); err != nil {
		return nil, err
	}
	failures, err := s.lost()
	if err != nil {
		return nil, err
	}
	var out []*simulated
	for _, name := range s.traces {
		f, err := s.trace(name)
		if err != nil {
			return nil, err
		}
		for _, nodes := range s.nodes {
			for _, p := range s.policies {
				r := &simulated{Policy: p, Trace: name, Nodes: nodes, config: sim.Config{
					Nodes: nodes, DevicesPerNode: s.devicesPerNode, Failures: failures, CheckpointEvery: s.checkpoints,
					Interval: s.interval, RescaleCost: s.rescaleCost, StartCosts: s.overhead, StartDelay: s.startDelay,
				}}
				if !slices.Contains(s.known(), p) {
					return nil, fault.Usage("--policy %q: use one of %s", p, strings.Join(s.known(), ", "))
				}
				if err := s.fill(r, f); err != nil {
					return nil, err
				}
				if err := r.config.Validate(); err != nil {
					return nil, fmt.Errorf("simulate %s on %s: %w", name, units.Count(nodes, "node"), err)
				}
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// trace reads a trace, or draws it.
func (s *simulation) trace(name string) (f trace.File, err error) {
	if f = sim.Synthetic(s.model.Seed); name != sim.SyntheticName {
		f, err = readFrom(name, trace.Read)
	}
	if s.atOnce {
		for i := range f.Arrivals {
			a := &f.Arrivals[i]
			a.Submit, a.Deadline = 0, max(0, a.Deadline-a.Submit)
		}
	}
	return f, err
}

// fill says which jobs a run has, and who decides.
func (s *simulation) fill(r *simulated, f trace.File) (err error) {
	if jobs := ruleSets()[s.rules].jobs; jobs != nil {
		return jobs(s, r, f)
	}
	if r.config.Jobs, err = s.model.Jobs(f); err != nil {
		return err
	}
	if s.referee != nil {
		r.Reference = &refereed{}
		r.config.Policy = s.referee.policyWith(r.Reference)
		r.config.Check = func() error { return s.referee.check(r.Reference) }
		return nil
	}
	r.config.Policy, err = policy.ByName(r.Policy)
	return err
}

// readTables reads what the flags name besides traces.
func (s *simulation) readTables() (err error) {
	switch {
	case s.rules == "muri" && s.profile != "":
		s.overhead, err = readFrom(s.profile, trace.ReadOverhead)
	case s.rules == "muri":
		s.overhead = muri.Overhead()
	case s.startCosts != "":
		s.overhead, err = readFrom(s.startCosts, trace.ReadOverhead)
	}
	falling := trace.Refuse
	if s.flatten {
		falling = trace.Flatten
	}
	if err == nil && s.speed == speedProfile {
		s.model.Profile, err = readFrom(s.profile, func(name string, r io.Reader) (trace.Profile, error) {
			return trace.ReadProfile(name, r, falling)
		})
		s.model.Device = s.device
		err = s.remedied(err)
	}
	return err
}

func (s *simulation) muri(r *simulated, f trace.File) (err error) {
	in := muri.Setup{Machines: sim.Machines{Nodes: r.Nodes, DevicesPerNode: s.devicesPerNode}, Overhead: s.overhead, Model: s.model}
	r.config.StartCosts = nil
	r.config.Rules, r.config.Jobs, err = muri.New(r.Policy, f, in)
	return err
}

func (s *simulation) elasticFlow(r *simulated, f trace.File) (err error) {
	name := s.profile
	if name == "" {
		name = filepath.Join(filepath.Dir(r.Trace), "..", "profiles", "elasticflow_a100.csv")
	}
	in := elasticflow.Setup{Machines: sim.Machines{Nodes: r.Nodes, DevicesPerNode: s.devicesPerNode}, Slot: s.interval, Device: s.device}
	if in.Profile, err = readFrom(name, func(name string, r io.Reader) (trace.Profile, error) {
		return trace.ReadProfile(name, r, trace.Keep)
	}); err != nil {
		return fmt.Errorf("%w\n(the rules elasticflow need the speeds that its simulator ships, scheduler/throughputs_A100 and throughputs_T4 of "+
			"github.com/pkusys/ElasticFlow, as gpu_type,model,global_batch,gpus,iters_per_s; --profile names the table)", err)
	}
	r.config.Interval = 0
	r.config.Rules, r.config.Jobs, err = elasticflow.New(r.Policy, f, in)
	return err
}

func (s *simulation) pollux(r *simulated, f trace.File) error {
	folder := s.profile
	switch info, err := os.Stat(folder); {
	case folder == "":
		folder = filepath.Join(filepath.Dir(r.Trace), "..", "profiles")
	case err != nil:
		return fmt.Errorf("--profile %s: %w: give the folder of the Pollux simulator's tables", folder, fault.Reason(err))
	case !info.IsDir():
		folder = filepath.Dir(folder)
	}
	models, err := readPollux(folder)
	if err != nil {
		return err
	}
	r.config.Rules, r.config.Jobs, err = pollux.New(r.Policy, f,
		pollux.Setup{Machines: sim.Machines{Nodes: r.Nodes, DevicesPerNode: s.devicesPerNode}, Models: models})
	return err
}

// readPollux reads the four tables of the Pollux simulator.
func readPollux(folder string) (trace.PolluxModels, error) {
	models, err := readFrom(filepath.Join(folder, "pollux_app_params.csv"), trace.ReadPolluxModels)
	if err != nil {
		return nil, withSource(err)
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
		_, err := readFrom(name, func(name string, r io.Reader) (struct{}, error) {
			return struct{}{}, table.read(name, r)
		})
		if err != nil {
			return nil, withSource(err)
		}
	}
	return models, nil
}

// withSource says where a file that is missing can be had.
func withSource(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w\n(the tables are made from simulator/traces of github.com/petuum/adaptdl, branch osdi21-artifact; --profile names their folder)", err)
}

// lost reads --failures.
func (s *simulation) lost() (out []sim.Failure, err error) {
	for _, text := range s.failures {
		node, rest, ok := strings.Cut(text, "@")
		after, length, ok2 := strings.Cut(rest, "+")
		n, err1 := strconv.Atoi(node)
		at, err2 := time.ParseDuration(after)
		takes, err3 := time.ParseDuration(length)
		if !ok || !ok2 || errors.Join(err1, err2, err3) != nil || n < 0 || at < 0 || takes <= 0 {
			return nil, fmt.Errorf("%q: write NODE@AFTER+LENGTH, say 0@1h+10m for the first node", text)
		}
		out = append(out, sim.Failure{Node: n, At: at, For: takes})
	}
	return out, nil
}

// readFrom opens a file for a reader.
func readFrom[T any](name string, read func(string, io.Reader) (T, error)) (v T, err error) {
	f, err := os.Open(name)
	if err != nil {
		return v, fmt.Errorf("read %s: %w", name, fault.Reason(err))
	}
	defer f.Close()
	return read(name, f)
}

package batch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/file"
	"github.com/bellows-ml/bellows/lab/rules/elasticflow"
	"github.com/bellows-ml/bellows/lab/rules/muri"
	"github.com/bellows-ml/bellows/lab/rules/pollux"
	"github.com/bellows-ml/bellows/lab/rules/saxena"
	"github.com/bellows-ml/bellows/lab/rules/wei"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// ruleSet is what a value of --rules changes.
type ruleSet struct {
	// policies are those that the rules bring; all of production can run under them as well.
	policies []string
	// complete sets what the rules fix, and what they prefer where a flag is not given.
	complete func(s *Settings, given func(flag string) bool)
	// fill sets a run's jobs, and its rules or the terms for its policy; nil = jobs as in production.
	fill func(s *Settings, r *Run, f trace.File) error
	// promises says that deadlines are answered: a job whose deadline cannot be promised is refused.
	promises bool
	// published says that policy hu is the paper's, and not what became of it in production.
	published bool
}

// ruleSets is the list of rules; the empty name stands for none.
func ruleSets() map[string]ruleSet {
	free := func(s *Settings) { s.RescaleCost, s.StartDelay = 0, 0 }
	return map[string]ruleSet{
		"": {},
		"hu": {published: true, complete: func(s *Settings, given func(string) bool) {
			if !given("shortest") {
				s.Model.Shortest = 5 * time.Minute
			}
			if !given("longest") {
				s.Model.Longest = 72 * time.Hour
			}
		}},
		"elasticflow": {promises: true, policies: elasticflow.Policies(), complete: func(s *Settings, given func(string) bool) {
			if !given("interval") {
				s.Interval = time.Minute
			}
			free(s)
		}, fill: (*Settings).elasticFlow},
		"muri": {policies: muri.Policies(), complete: func(s *Settings, _ func(string) bool) {
			s.Model.Rigid = true
			free(s)
		}, fill: (*Settings).muri},
		"pollux": {policies: pollux.Policies(), complete: func(s *Settings, _ func(string) bool) {
			s.Interval = time.Minute
			free(s)
		}, fill: (*Settings).pollux},
		"saxena": {policies: saxena.Policies(), complete: func(s *Settings, given func(string) bool) {
			if !given("interval") {
				s.Interval = 8 * time.Minute
			}
			if !given("devices-per-node") {
				s.DevicesPerNode = 2
			}
			free(s)
		}, fill: (*Settings).saxena},
		"wei": {complete: func(s *Settings, given func(string) bool) {
			if !given("interval") {
				s.Interval = time.Second
			}
			if !given("devices-per-node") {
				s.DevicesPerNode = 4
			}
			free(s)
		}, fill: func(_ *Settings, r *Run, _ trace.File) (err error) {
			r.config.Jobs, r.config.Terms, err = wei.Read(r.Trace)
			return err
		}},
	}
}

// DefaultPolicy is the policy of coordinators that are not told one.
const DefaultPolicy = policy.Default

// production begins the name of a policy of production where the rules have one of the same name.
const production = "production/"

// own reports whether the rules decide in a run with this policy, and not production.
func (s *Settings) own(policyName string) bool {
	return slices.Contains(ruleSets()[s.Rules].policies, policyName)
}

// rigid reports whether jobs are to keep the size that their users asked for with this policy of production.
func (s *Settings) rigid(name string) bool {
	return s.Model.Rigid || policy.FixedSizes(strings.TrimPrefix(name, production))
}

// RuleNames lists what --rules takes.
func RuleNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(ruleSets())), func(name string) bool { return name == "" })
}

// RulePolicies names the policies that rules of a name bring.
func RulePolicies(name string) []string { return ruleSets()[name].policies }

func (s *Settings) machines(nodes int) sim.Machines {
	return sim.Machines{Nodes: nodes, DevicesPerNode: s.DevicesPerNode}
}

func (s *Settings) muri(r *Run, f trace.File) (err error) {
	overhead := muri.Overhead()
	if s.Profile != "" {
		if overhead, err = file.Read(s.Profile, trace.ReadOverhead); err != nil {
			return err
		}
	}
	in := muri.Setup{Machines: s.machines(r.Nodes), Overhead: overhead, Model: s.Model}
	if !s.own(r.Policy) {
		r.config.Jobs, r.config.Terms, err = muri.Terms(f, in)
		return err
	}
	r.config.Interval = 0
	r.config.Rules, r.config.Jobs, err = muri.New(r.Policy, f, in)
	return err
}

func (s *Settings) saxena(r *Run, f trace.File) error {
	in := saxena.Setup{Machines: s.machines(r.Nodes), Delta: s.Interval}
	load, drawn, err := saxena.ReadLoad(r.Trace)
	switch {
	case err != nil:
		return err
	case drawn:
		f = load.Draw(s.Model.Seed, in.Machines)
	}
	if !s.own(r.Policy) {
		r.config.Jobs, r.config.Terms, err = saxena.Terms(f, in)
		return err
	}
	r.config.Interval = 0
	r.config.Rules, r.config.Jobs, err = saxena.New(r.Policy, f, in)
	return err
}

func (s *Settings) elasticFlow(r *Run, f trace.File) (err error) {
	name := s.Profile
	if name == "" {
		name = filepath.Join(filepath.Dir(r.Trace), "..", "profiles", "elasticflow_a100.csv")
	}
	in := elasticflow.Setup{Machines: s.machines(r.Nodes), Slot: s.Interval, Device: s.Device}
	if in.Profile, err = file.Read(name, func(name string, r io.Reader) (trace.Profile, error) {
		return trace.ReadProfile(name, r, trace.Keep)
	}); err != nil {
		return fmt.Errorf("%w\n(the rules elasticflow need the speeds that its simulator ships, scheduler/throughputs_A100 and throughputs_T4 of "+
			"github.com/pkusys/ElasticFlow, as gpu_type,model,global_batch,gpus,iters_per_s; --profile names the table)", err)
	}
	if !s.own(r.Policy) {
		r.config.Jobs, r.config.Terms, err = elasticflow.Terms(f, in, s.rigid(r.Policy))
		return err
	}
	r.config.Interval = 0
	r.config.Rules, r.config.Jobs, err = elasticflow.New(r.Policy, f, in)
	return err
}

func (s *Settings) pollux(r *Run, f trace.File) error {
	folder := s.Profile
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
	in := pollux.Setup{Machines: s.machines(r.Nodes), Models: models}
	switch {
	case s.own(r.Policy):
	case s.BatchRanges:
		r.config.Jobs, r.config.Terms, err = pollux.Ranges(f, in)
		return err
	default:
		r.config.Jobs, r.config.Terms, err = pollux.Terms(f, in, s.rigid(r.Policy))
		return err
	}
	r.config.Interval = 0
	r.config.Rules, r.config.Jobs, err = pollux.New(r.Policy, f, in)
	return err
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

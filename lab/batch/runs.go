package batch

import (
	"fmt"
	"io"
	"strings"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/lab/file"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Runs makes a run of each combination, traces first, of settings that are Complete.
func (s *Settings) Runs() ([]*Run, error) { return s.runs(nil) }

// runs are Runs whose questions a solver answers, if there is one.
func (s *Settings) runs(solver Solver) ([]*Run, error) {
	base := sim.Config{
		DevicesPerNode: s.DevicesPerNode, CheckpointEvery: s.CheckpointEvery,
		Interval: s.Interval, RescaleCost: s.RescaleCost, StartDelay: s.StartDelay, Know: sim.Know(s.Know), Foretell: s.Foretell,
		Migrations: s.Migrations,
	}
	model, err := s.modelOfJobs()
	if err == nil {
		base.Layout, err = s.layout()
	}
	if err == nil && s.StartCosts != "" {
		base.StartCosts, err = file.Read(s.StartCosts, trace.ReadOverhead)
	}
	if err == nil {
		base.Failures, err = s.failures()
	}
	if err != nil {
		return nil, err
	}
	var out []*Run
	for _, name := range s.Traces {
		f, err := s.trace(name)
		if err != nil {
			return nil, err
		}
		for _, nodes := range s.Nodes {
			for _, p := range s.Policies {
				r := &Run{Policy: p, Trace: name, Nodes: nodes, config: base}
				r.config.Nodes, r.config.Models, r.config.Blind = nodes, s.models(), s.IgnoreModels
				if err := s.fill(r, f, model, solver); err != nil {
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
func (s *Settings) trace(name string) (f trace.File, err error) {
	if draws := s.ruleSets()[s.Rules].Draws; draws != nil && draws(name) {
		return f, nil // which the rules make
	}
	if f = sim.Synthetic(s.Model.Seed); name != sim.SyntheticName {
		f, err = file.Read(name, trace.Read)
	}
	if s.AtOnce {
		for i := range f.Arrivals {
			a := &f.Arrivals[i]
			a.Submit, a.Deadline = 0, max(0, a.Deadline-a.Submit)
		}
	}
	return f, err
}

// modelOfJobs is Model with the profile that the settings name.
func (s *Settings) modelOfJobs() (m sim.Model, err error) {
	m = s.Model
	if s.Source != SpeedProfile {
		return m, nil
	}
	falling := trace.Refuse
	if s.Flatten {
		falling = trace.Flatten
	}
	m.Device = s.Device
	if m.Devices = s.deviceNames(); m.Device == "" && len(m.Devices) > 0 {
		m.Device = m.Devices[0]
	}
	m.Profile, err = file.Read(s.Profile, func(name string, r io.Reader) (trace.Profile, error) {
		return trace.ReadProfile(name, r, falling)
	})
	if err != nil && !s.Flatten {
		err = fmt.Errorf("%w\n(--flatten lets the surplus devices idle where a curve falls)", err)
	}
	return m, err
}

// fill sets the run's jobs and who decides: the rules, or a policy of production, whose
// questions a solver answers if there is one.
func (s *Settings) fill(r *Run, f trace.File, m sim.Model, solver Solver) (err error) {
	rules := s.ruleSets()[s.Rules]
	if rules.Fill != nil {
		var made Filling
		if made, err = rules.Fill(s, r, f); err != nil {
			return err
		}
		if r.config.Jobs, r.config.Terms, r.config.Rules = made.Jobs, made.Terms, made.Rules; made.Rules != nil {
			r.config.Interval = 0
			return nil
		}
	} else if r.config.Jobs, err = m.Jobs(f); err != nil {
		return err
	}
	switch name := strings.TrimPrefix(r.Policy, production); {
	case solver != nil:
		r.Reference = &Reference{Solver: solver.Name()}
		r.config.Policy = solver.Policy(r.Reference, rules.Published)
		r.config.Check = func() error { return solver.Check(r.Reference) }
	case name == solvedPolicy:
		r.config.Policy = policy.Hu(policy.HuOptions{Published: rules.Published})
	default:
		r.config.Policy, err = policy.ByName(name)
	}
	if _, can := r.config.Policy.(allocator.Promising); can {
		r.config.Promise = rules.Promises
	}
	return err
}

package batch

import "github.com/bellows-ml/bellows/lab/sim"

// Production begins the name of a policy of production where the rules have one of the same name.
const Production = production

// KnownPolicies names the policies that can be asked for.
func (s *Settings) KnownPolicies() []string { return s.knownPolicies() }

// RunsWith are Runs whose questions a solver answers.
func (s *Settings) RunsWith(solver Solver) ([]*Run, error) { return s.runs(solver) }

// Config is what the run simulates.
func (r *Run) Config() sim.Config { return r.config }

// Run runs one simulation.
func (r *Run) Run() error { return r.run() }

package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/sim"
)

// Settings are what the flags of bellows simulate say.
type Settings struct {
	Traces   []string // files, or sim.SyntheticName
	AtOnce   bool     // all jobs are submitted at the beginning
	Policies []string
	Rules    string // conventions of a published experiment or simulator, one of RuleNames; empty = none
	Lab      Lab
	Speeds
	Nodes []int
	// Mixed is a cluster of several models of devices, each NAME=NODES, instead of Nodes; IgnoreModels has
	// decisions made as if they were one.
	Mixed          []string
	IgnoreModels   bool
	DevicesPerNode int
	Layout
	Timing
	Failures []string // each NODE@AFTER+LENGTH
	Model    sim.Model
	// BatchRanges: jobs may have any batch that was measured of their model, instead of their users'.
	BatchRanges bool
	Foretell    bool   // predict the starts of jobs that wait
	Know        string // what is told of jobs beforehand, one of sim.Knows; empty = all
	Solver      string // that answers policy hu's questions; OwnSolver = as in production
	SolverLimit time.Duration
}

// Speeds are where the speeds of jobs come from.
type Speeds struct {
	Profile string // a table, or a folder of them; what it holds depends on the rules
	Device  string // of the profile; empty if it has only one
	Flatten bool   // where a curve falls, surplus devices are idle
	Source  string // SpeedPaper or SpeedProfile; Complete chooses where it is empty
}

// Layout is where nodes and devices are, and whether jobs move for each other.
type Layout struct {
	DeviceGroups string // as cluster.ParseDeviceGroups reads them
	NodesPerRack int    // 0 = no racks
	Migrations   int    // jobs that may be moved in an interval
	SpanLoss     float64
}

// Timing is how long things take, and how often they happen.
type Timing struct {
	Interval, RescaleCost, StartDelay time.Duration
	StartCosts                        string // a table that replaces RescaleCost
	CheckpointEvery                   time.Duration
}

// The values of Speeds.Source.
const (
	SpeedPaper   = "paper"
	SpeedProfile = "profile"
)

// elsewhere is the command that has all of Lab.
const elsewhere = "'bellows-lab simulate' ('make build' in the sources makes it)"

// Complete sets what the rules fix, and the defaults that they have for flags
// that are not given. Its error is of usage and has all faults of the settings.
func (s *Settings) Complete(given func(flag string) bool) error {
	var faults fault.List
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			faults.Usage(format, args...)
		}
	}
	rules, known := s.ruleSets()[s.Rules]
	more := ""
	if s.Lab.Rules == nil {
		more = "; " + elsewhere + " has the conventions of other simulators"
		demand(!s.BatchRanges, "--batch-ranges: only %s has them", elsewhere)
	}
	demand(known, "--rules %q: use one of %s%s", s.Rules, strings.Join(s.RuleNames(), ", "), more)
	if rules.Complete != nil {
		rules.Complete(s, given)
	}
	if s.Source == "" {
		s.Source = SpeedPaper
		if s.Profile != "" && rules.Policies == nil {
			s.Source = SpeedProfile
		}
	}
	demand(s.Source == SpeedPaper || s.Source == SpeedProfile, "--speed %q: use paper or profile", s.Source)
	demand(s.Source != SpeedProfile || s.Profile != "", "--speed profile: give --profile")
	demand(len(s.Traces) > 0, "--trace is missing: give one or more files")
	faults.Add(s.mix(given))
	demand(len(s.Nodes) > 0, "--nodes is missing: give one or more numbers")
	if len(s.Policies) == 0 && rules.Policies == nil {
		s.Policies = []string{DefaultPolicy}
	}
	demand(len(s.Policies) > 0, "--policy is missing: give one or more of %s", strings.Join(s.knownPolicies(), ", "))
	for _, p := range s.Policies {
		demand(!known || slices.Contains(s.knownPolicies(), p), "--policy %q: use one of %s", p, strings.Join(s.knownPolicies(), ", "))
	}
	for _, n := range s.Nodes {
		demand(n > 0, "--nodes %d: use 1 or more", n)
	}
	demand(s.DevicesPerNode > 0, "--devices-per-node %d: use 1 or more", s.DevicesPerNode)
	faults.Add(s.checkLayout())
	demand(s.Model.MaxWorkers > 0, "--max-workers %d: use 1 or more", s.Model.MaxWorkers)
	demand(s.Interval > 0, "--interval %v: use a positive duration such as 5m", s.Interval)
	demand(s.RescaleCost >= 0, "--rescale-cost %v: use 0 or more", s.RescaleCost)
	demand(s.StartDelay >= 0, "--start-delay %v: use 0 or more", s.StartDelay)
	demand(s.CheckpointEvery >= 0, "--checkpoint-every %v: use 0 or more", s.CheckpointEvery)
	demand(s.Know == "" || slices.Contains(sim.Knows(), s.Know), "--know %q: use one of %s", s.Know, strings.Join(sim.Knows(), ", "))
	demand(s.Know == "" || s.Know == string(sim.KnowAll) || !slices.ContainsFunc(s.Policies, s.Own), "--know %s: a policy of --rules %s decides by itself what it knows", s.Know, s.Rules)
	demand(!s.BatchRanges || s.Lab.Rules == nil || rules.Ranges, "--batch-ranges: only the tables of --rules pollux tell what a batch is worth; add that, or leave it out")
	demand(!s.BatchRanges || s.Know == "" || s.Know == string(sim.KnowAll), "--batch-ranges --know %s: the steps of such jobs are not measured; leave one of them out", s.Know)
	for _, p := range s.Policies {
		demand(!s.BatchRanges || !s.Own(p) && !s.Rigid(p), "--batch-ranges --policy %s: it keeps the size or the batch that users asked for; choose another", p)
	}
	faults.Add(s.checkSolver())
	_, err := s.failures()
	demand(err == nil, "--failures %w", err)
	demand(s.StartCosts == "" || rules.Policies == nil, "--start-costs: --rules %s sets what a start costs", s.Rules)
	demand(s.Model.ETANoise >= 0 && s.Model.ETANoise < 1, "--eta-noise %v: use 0 or more and less than 1", s.Model.ETANoise)
	demand(s.Model.Buggy >= 0 && s.Model.Impatient >= 0 && s.Model.Buggy+s.Model.Impatient <= 1,
		"--buggy %v, --terminated %v: use shares that make at most 1 together", s.Model.Buggy, s.Model.Impatient)
	return faults.Err()
}

// checkLayout finds what is wrong with where devices are and with moves.
func (s *Settings) checkLayout() error {
	var faults fault.List
	if _, err := s.layout(); err != nil {
		faults.Usage("--device-groups %w", err)
	}
	if s.NodesPerRack < 0 {
		faults.Usage("--nodes-per-rack %d: use 1 or more, or 0 for no racks", s.NodesPerRack)
	}
	if s.Migrations < 0 {
		faults.Usage("--migrations %d: use 1 or more, or 0 for none", s.Migrations)
	}
	if !(s.SpanLoss >= 0 && s.SpanLoss < 1) {
		faults.Usage("--span-loss %v: use 0 or more and less than 1", s.SpanLoss)
	}
	if s.SpanLoss > 0 && s.ruleSets()[s.Rules].Ranges {
		faults.Usage("--span-loss %v: the tables of --rules %s tell what a placement costs; leave it out", s.SpanLoss, s.Rules)
	}
	for _, p := range s.Policies {
		if s.Own(p) && (s.Migrations > 0 || s.SpanLoss > 0) {
			faults.Usage("--migrations and --span-loss: policy %s of --rules %s places jobs by itself; leave them out, or choose a policy of production", p, s.Rules)
			break
		}
	}
	return faults.Err()
}

// layout is where nodes and devices are, as a simulation takes it.
func (s *Settings) layout() (sim.Layout, error) {
	l := sim.Layout{NodesPerRack: s.NodesPerRack, SpanLoss: s.SpanLoss}
	groups, err := cluster.ParseDeviceGroups(s.DeviceGroups)
	if err != nil {
		return l, err
	}
	if problem := groups.Apply(make([]cluster.Device, max(0, s.DevicesPerNode))); problem != "" {
		return l, fmt.Errorf("%q: %s of --devices-per-node", s.DeviceGroups, strings.TrimPrefix(problem, "--device-groups "))
	}
	l.Groups = groups
	return l, nil
}

// checkSolver finds what --solver cannot be used with.
func (s *Settings) checkSolver() error {
	if s.Lab.CheckSolver == nil {
		if s.Solver != OwnSolver {
			return fault.Usage("--solver %s: only %s has other solvers", s.Solver, elsewhere)
		}
		return nil
	}
	if err := s.Lab.CheckSolver(s.Solver); err != nil {
		return fault.AsUsage(err)
	}
	var faults fault.List
	if s.SolverLimit <= 0 {
		faults.Usage("--solver-limit %v: use a positive time", s.SolverLimit)
	}
	if s.Solver == OwnSolver {
		return faults.Err()
	}
	for _, p := range s.Policies {
		if p != solvedPolicy {
			faults.Usage("--solver %s: only policy %s asks a solver, and --policy names %s: run that without it", s.Solver, solvedPolicy, p)
		}
	}
	if s.ruleSets()[s.Rules].Policies != nil {
		faults.Usage("--solver %s: --rules %s makes decisions of its own", s.Solver, s.Rules)
	}
	return faults.Err()
}

// knownPolicies names the policies that can be asked for.
func (s *Settings) knownPolicies() []string {
	names := slices.Clone(s.ruleSets()[s.Rules].Policies)
	for _, name := range policy.Names() {
		if s.Own(name) {
			name = production + name
		}
		names = append(names, name)
	}
	return names
}

// failures reads Failures.
func (s *Settings) failures() (out []sim.Failure, err error) {
	for _, text := range s.Failures {
		node, rest, ok := strings.Cut(text, "@")
		after, length, ok2 := strings.Cut(rest, "+")
		n, err1 := strconv.Atoi(node)
		at, err2 := time.ParseDuration(after)
		takes, err3 := time.ParseDuration(length)
		if !ok || !ok2 || err1 != nil || err2 != nil || err3 != nil || n < 0 || at < 0 || takes <= 0 {
			return nil, fmt.Errorf("%q: write NODE@AFTER+LENGTH, say 0@1h+10m for the first node", text)
		}
		out = append(out, sim.Failure{Node: n, At: at, For: takes})
	}
	return out, nil
}

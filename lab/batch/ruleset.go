package batch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Lab is what `bellows-lab simulate` has and `bellows simulate` has not: conventions of other simulators and other
// solvers. Package lab/rules has the table of the former, lab/referee the latter. See ADR 63.
type Lab struct {
	Rules map[string]RuleSet // by the value of --rules
	// CheckSolver says what is wrong with a value of --solver, and OpenSolver opens one, each of whose answers takes
	// limit at most; nil = none.
	CheckSolver func(name string) error
	OpenSolver  func(ctx context.Context, name string, limit time.Duration) (Solver, error)
}

// A Solver answers the questions of policy hu instead of allocator/solve.
type Solver interface {
	Name() string
	// Policy is hu with this solver, which counts into r; Check returns why a run cannot go on.
	Policy(r *Reference, published bool) allocator.Policy
	Check(r *Reference) error
	Close() error
}

// solvedPolicy is the one policy whose questions other solvers can answer.
const solvedPolicy = "hu"

// OwnSolver is the value of --solver for allocator/solve.
const OwnSolver = "own"

// Reference compares the answers of another solver with those of allocator/solve,
// over all questions of a run; the fields are a contract.
type Reference struct {
	Solver string `json:"solver"`
	// Questions that it answered; Unproved are those of which it did not claim that its answer is optimal.
	Questions int `json:"questions"`
	Unproved  int `json:"unproved"`
	// How often the checker found which plan to be better.
	Equal        int `json:"equal"`
	OursBetter   int `json:"ours_better"`
	TheirsBetter int `json:"theirs_better"`
	// The sums of the values of its plans, and of allocator/solve's for the same questions, by the checker.
	Value    float64 `json:"value"`
	OwnValue float64 `json:"own_value"`
	TookS    float64 `json:"took_s"`

	Err error `json:"-"` // why the solver has no answer
}

// A RuleSet is what a value of --rules changes.
type RuleSet struct {
	About string // for the help of --rules: what they are; lines after the first are indented by 8
	// Policies are those that the rules bring; all of production can run under them as well.
	Policies []string
	// Complete sets what the rules fix, and what they prefer where a flag is not given; nil = nothing.
	Complete func(s *Settings, given func(flag string) bool)
	// Fill says which jobs a run has, and who decides; nil = jobs as in production.
	Fill func(s *Settings, r *Run, f trace.File) (Filling, error)
	// Draws reports whether the rules make the jobs of a trace of this name, so that no file is read; nil = none.
	Draws func(trace string) bool
	// Promises says that deadlines are answered: a job whose deadline cannot be promised is refused.
	Promises bool
	// Published says that policy hu is the paper's, and not what became of it in production.
	Published bool
	// Ranges says that its tables tell what a batch is worth (--batch-ranges), and what a placement costs.
	Ranges bool
}

// A Filling is what rules make of a run.
type Filling struct {
	Jobs  []sim.Job
	Terms sim.Terms
	Rules sim.Rules // decide, at moments of their own; nil = a policy of production does
}

// ruleSets is the list of rules; the empty name stands for none.
func (s *Settings) ruleSets() map[string]RuleSet {
	all := map[string]RuleSet{
		"": {},
		"hu": {Published: true, About: `jobs of 5 minutes or more cut to 3 days, a node counting as one device;
        flags that are given go before`, Complete: func(s *Settings, given func(string) bool) {
			if !given("shortest") {
				s.Model.Shortest = 5 * time.Minute
			}
			if !given("longest") {
				s.Model.Longest = 72 * time.Hour
			}
		}},
	}
	maps.Copy(all, s.Lab.Rules)
	return all
}

// DefaultPolicy is the policy of coordinators that are not told one.
const DefaultPolicy = policy.Default

// production begins the name of a policy of production where the rules have one of the same name.
const production = "production/"

// Own reports whether the rules decide in a run with this policy, and not production.
func (s *Settings) Own(policyName string) bool {
	return slices.Contains(s.ruleSets()[s.Rules].Policies, policyName)
}

// Rigid reports whether jobs are to keep the size that their users asked for with this policy of production.
func (s *Settings) Rigid(name string) bool {
	return s.Model.Rigid || policy.FixedSizes(strings.TrimPrefix(name, production))
}

// RuleNames lists what --rules takes.
func (s *Settings) RuleNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.ruleSets())), func(name string) bool { return name == "" })
}

// Machines are the nodes of a run.
func (s *Settings) Machines(nodes int) sim.Machines {
	return sim.Machines{Nodes: nodes, DevicesPerNode: s.DevicesPerNode}
}

// AboutRules describes the values of --rules, a paragraph each, for a help text.
func (l Lab) AboutRules() string {
	s := Settings{Lab: l}
	var b strings.Builder
	for _, name := range s.RuleNames() {
		set := s.ruleSets()[name]
		fmt.Fprintf(&b, "  %s  %s", name, set.About)
		if len(set.Policies) > 0 {
			fmt.Fprintf(&b, ";\n        its policies are %s", strings.Join(set.Policies, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

package batch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/milp"
	"github.com/bellows-ml/bellows/lab/referee"
	"github.com/bellows-ml/bellows/lab/rules"
	"github.com/bellows-ml/bellows/lab/sim"
)

// everything is all that simulations can have.
var everything = batch.Lab{Rules: rules.Table(), CheckSolver: milp.CheckName, OpenSolver: referee.Open}

// under are the settings of runs under the rules, with the traces that their own tests have.
func under(name string, policies ...string) *batch.Settings {
	s := &batch.Settings{
		Lab:   everything,
		Rules: name, Policies: policies, Nodes: []int{3}, DevicesPerNode: 4,
		Timing: batch.Timing{Interval: 5 * time.Minute, RescaleCost: 30 * time.Second, CheckpointEvery: 30 * time.Minute},
		Model:  sim.Model{MaxWorkers: 16, Seed: 1}, Solver: batch.OwnSolver, SolverLimit: time.Minute,
	}
	folder := "../rules/" + name + "/testdata/"
	s.Traces = []string{folder + "trace.csv"}
	switch name {
	case "elasticflow":
		s.Profile, s.Nodes = folder+"profile.csv", []int{4}
	case "muri":
		s.Profile, s.Nodes, s.DevicesPerNode = folder+"overhead.csv", []int{2}, 8
	case "pollux":
		s.Profile = "../rules/pollux/testdata"
	case "saxena":
		s.Nodes, s.DevicesPerNode = []int{6}, 2
	case "wei":
		s.Traces, s.Nodes = []string{"pair-128-implied"}, []int{1}
	case "hu":
		s.Traces, s.Nodes = []string{"../rules/muri/testdata/trace.csv"}, []int{8}
	}
	return s
}

// wholeSimulations skips a test with the race detector and -short, with which it takes minutes: others give it the
// same goroutines to look at.
func wholeSimulations(t *testing.T) {
	t.Helper()
	if raceEnabled && testing.Short() {
		t.Skip("with the race detector these are minutes, and others have the same goroutines")
	}
}

// Every policy of production runs under the conventions of every simulator, beside the policies that these bring.
func TestEveryPolicyRunsUnderAllRules(t *testing.T) {
	wholeSimulations(t)
	for _, name := range (&batch.Settings{Lab: everything}).RuleNames() {
		t.Run(name, func(t *testing.T) {
			s := under(name)
			s.Policies = s.KnownPolicies()
			for _, name := range policy.Names() {
				if s.Own(name) {
					name = batch.Production + name
				}
				if !strings.Contains(" "+strings.Join(s.Policies, " ")+" ", " "+name+" ") {
					t.Errorf("%s is not offered", name)
				}
			}
			if err := s.Complete(func(string) bool { return false }); err != nil {
				t.Fatal(err)
			}
			runs, err := s.Do(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			hashes := map[string]string{}
			for _, r := range runs {
				hashes[r.Policy] = r.LogSHA256
				if !s.Own(r.Policy) && r.Finished+refused(r) != r.Jobs || r.Result.Rejected != 0 {
					t.Errorf("%s: %d of %d jobs finished, %d refused, %d answers rejected", r.Policy, r.Finished, r.Jobs, refused(r), r.Result.Rejected)
				}
			}
			for name := range hashes {
				if s.Own(name) && hashes[name] == hashes[batch.Production+name] {
					t.Errorf("%s of the rules and of production decide the same", name)
				}
			}
		})
	}
}

// Under the rules of ElasticFlow, policies of production that promise deadlines answer each:
// those that cannot be kept are refused, and what is promised is kept, the default's too.
func TestProductionPromisesDeadlines(t *testing.T) {
	wholeSimulations(t)
	s := under("elasticflow", policy.Default, batch.Production+"elasticflow", "greedy")
	if err := s.Complete(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	runs, err := s.Do(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		kept, late := 0, 0
		for _, o := range r.Result.Jobs {
			switch {
			case o.Phase == cluster.Refused:
			case o.End <= o.Deadline:
				kept++
			default:
				late++
			}
		}
		if promises := r.Policy != "greedy"; promises != (refused(r) > 0) || promises == (late > 0) || kept == 0 {
			t.Errorf("%s: %d kept, %d late, %d refused", r.Policy, kept, late, refused(r))
		}
	}
}

// refused is how many of a run's jobs were refused for their deadlines.
func refused(r *batch.Run) int {
	n := 0
	for _, o := range r.Result.Jobs {
		if o.Phase == cluster.Refused {
			n++
		}
	}
	return n
}

// What the rules fix holds for policies of production too.
func TestTermsOfRules(t *testing.T) {
	for name, want := range map[string]sim.Terms{
		"elasticflow": {Apart: time.Minute}, "muri": {}, "pollux": {Round: time.Minute},
	} {
		s := under(name, "flowtime")
		if err := s.Complete(func(string) bool { return false }); err != nil {
			t.Fatal(err)
		}
		runs, err := s.Runs()
		if err != nil {
			t.Fatal(err)
		}
		c := runs[0].Config()
		if c.Terms.Round != want.Round || c.Terms.Apart != want.Apart || c.Terms.StartCost == nil || (c.Terms.Toll != nil) != (name == "muri") || (c.Terms.Pace != nil) != (name == "pollux") {
			t.Errorf("%s: %+v", name, c.Terms)
		}
		if c.Rules != nil || c.Policy.Name() != "flowtime" {
			t.Errorf("%s: flowtime does not decide", name)
		}
	}
}

func TestKnowIsForPoliciesOfProduction(t *testing.T) {
	s := under("pollux", "flowtime")
	s.Know = "steps"
	if err := s.Complete(func(string) bool { return false }); err != nil {
		t.Error(err)
	}
	s = under("pollux", "flowtime", "tiresias")
	s.Know = "steps"
	if err := s.Complete(func(string) bool { return false }); err == nil || !strings.Contains(err.Error(), "--know steps: a policy of --rules pollux") {
		t.Errorf("%v", err)
	}
}

package main

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/tools/arch"
)

// A step of a tier is one command, and its tests if they are Go's.
type step struct {
	what    string   // in words, as a heading
	program string   // empty for go
	args    []string // of the command; those of Go's tests start with "test"
	beside  bool     // it runs beside the steps that follow, and is printed when it has ended
	spare   bool     // it gets the processor time that is left
	env     []string
	every   []string // packages of which each test gets a line
	repeats bool     // a few tests that fail are run again, alone, when all steps have ended
}

// longest are the packages with the longest tests, which start first: go starts
// packages in the order in which it is given them.
var longest = []string{"cli/verify", "agent/host", "agent/shim", "cmd/bellows", "coordinator", "lab/sim", "lab/batch", "api/serve", "store"}

// clusters is the package whose tests are clusters of real processes.
const clusters = "e2e"

// simulations is the package whose tests simulate most. It has goroutines: a part of it
// runs with the race detector too.
const simulations = "./lab/batch"

// race are the settings of the race detector, for tests and for the processes that they
// start. A process with a race ends there: a test that does not look at how a process ends
// would not notice else. And a process that ends does not wait a second for more reports,
// as it does unless told: the tests start thousands.
var race = []string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"}

// collector lets heaps grow more before they are collected: of the processor time of pure
// packages' tests a sixth is the collector's, and none needs a twentieth of the memory there is.
// With the race detector a larger heap costs the kernel what it saves the collector.
var collector = []string{"GOGC=400"}

// interpreter is Debian's, the one that has torch and pytest, unless PYTHON names another.
var interpreter = cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")

// tiers names what each tier runs, in order. A step runs although one before it has failed.
func tiers() map[string][]step {
	pure, others := packages()
	return map[string][]step{
		"quick": {
			{what: "pure packages and the simulator, a part of the random records", env: collector, args: append([]string{"test", "-short", "-count=1", "-vet=off"}, pure...)},
		},
		// The linter vets the code, and does it whole: tests need not.
		// Tests of random records, storms and whole simulations have less to do (-short): a part of the seeds finds what a change
		// has broken, and all of them would take two more minutes of a processor. The soak runs them whole.
		// Pure packages have neither goroutines nor state, which tools/arch checks: the race detector has nothing to find there.
		// Most of the other tests wait for processes and not for a processor: more run at once than there are processors.
		// So many that both processors are busy to the end, and no more: with twice as many, they wait for each other and poll
		// meanwhile. What the tests of e2e start has the race detector (in part: CONTRIBUTING.md), they themselves and the etcd in
		// their process do not: it would take a fifth of their processor time to look at a harness.
		// Tests of processes wait a lot: what needs only a processor gets the time that they leave.
		// Only what processes do is repeated if it fails: the soak, which looks for unsteady tests, repeats nothing.
		"test": {
			{what: "the Python module and the examples", program: interpreter, beside: true, args: []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "sdk", "examples"}},
			{what: "pure packages and the simulator, a part of the random records", beside: true, spare: true, env: collector, args: append([]string{"test", "-short", "-count=1", "-vet=off", "-timeout", "1h"}, append(slices.Clone(pure), simulations)...)},
			{what: "compile all others with the race detector", args: []string{"build", "-race", "./..."}},
			{what: "all others, with the race detector", beside: true, repeats: true, env: race, args: append([]string{
				"test", "-race", "-short", "-count=1", "-vet=off", "-timeout", "30m", "-p", "2", "-parallel", "3",
			}, others...)},
			{what: "clusters of real processes that have the race detector", every: []string{clusters}, repeats: true, env: append(race, "BELLOWS_E2E_RACE=1"), args: []string{
				"test", "-short", "-count=1", "-vet=off", "-timeout", "30m", "-parallel", "6", "./" + clusters,
			}},
		},
		"soak": {
			{what: "storms: 3,000 seeds of each kind", args: []string{
				"test", "-count=1", "-timeout", "4h", "-run", "Storm|Rule", "./coordinator", "-args", "-seeds", "3000",
			}},
			{what: "everything with the race detector, three times", every: []string{clusters}, env: race, args: append([]string{
				"test", "-race", "-count=3", "-timeout", "6h", "-p", "3", "-parallel", "6",
			}, append(append([]string{"./" + clusters}, others...), pure...)...)},
			{what: "the Python module with each Python that is there", program: interpreter, env: []string{"BELLOWS_TEST_ALL_PYTHONS=1"}, args: []string{
				"-m", "pytest", "-q", "-p", "no:cacheprovider", "sdk",
			}},
			{what: "safety rules taken out one at a time", args: []string{"run", "./tools/mutants"}},
		},
	}
}

// alone are packages that are not pure but have no goroutines: the race detector
// finds nothing in them, and makes the simulator's runs take minutes.
var alone = []string{
	"lab/sim", "lab/machine", "lab/rules/elasticflow", "lab/rules/muri", "lab/rules/pollux", "lab/rules/saxena", "lab/rules/wei",
	"lab/plan", "lab/plot", "lab/trace", "tools/arch", "tools/mutants",
}

// packages lists the packages of the table in tools/arch that decide only, and
// all others but the clusters: the longest first.
func packages() (pure, others []string) {
	for _, row := range arch.Rows() {
		if row.Path == clusters {
			continue
		}
		if row.Grade == arch.Pure || slices.Contains(alone, row.Path) {
			pure = append(pure, "./"+row.Path)
		} else {
			others = append(others, "./"+row.Path)
		}
	}
	rank := func(path string) int {
		if i := slices.Index(longest, strings.TrimPrefix(path, "./")); i >= 0 {
			return i
		}
		return len(longest)
	}
	for _, paths := range [][]string{pure, others} {
		slices.SortStableFunc(paths, func(a, b string) int { return rank(a) - rank(b) })
	}
	return pure, others
}

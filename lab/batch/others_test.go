package batch_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/sim"
)

// A load is a trace on a cluster under the default policy, and what half of its jobs may use of
// what the policy offers. The jobs that use nothing are the same in all of its runs.
type load struct {
	none sim.Config // no job uses anything
	uses map[string]func(c *sim.Config, using map[string]bool)
}

// loadOf makes a load of settings with one trace and one number of nodes.
func loadOf(t *testing.T, s batch.Settings) load {
	t.Helper()
	s.Lab = everything
	s.Policies, s.Solver, s.SolverLimit = []string{policy.Default}, batch.OwnSolver, time.Minute
	if s.Interval == 0 {
		s.Interval = 5 * time.Minute
	}
	if s.DevicesPerNode == 0 {
		s.DevicesPerNode = 1
	}
	s.RescaleCost, s.CheckpointEvery, s.Flatten = 30*time.Second, 30*time.Minute, true
	if s.Model.MaxWorkers == 0 {
		s.Model.MaxWorkers = 16
	}
	if err := s.Complete(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	runs, err := s.Runs()
	if err != nil {
		t.Fatal(err)
	}
	l := load{none: runs[0].Config()}
	if os.Getenv(tracesFolder) == "" {
		l.none.Jobs = l.none.Jobs[:fewJobs]
	}
	l.uses = map[string]func(*sim.Config, map[string]bool){"losses": tellLosses}
	switch {
	case len(s.Mixed) > 0:
		where := func(w cluster.Where) func(*sim.Config, map[string]bool) {
			return func(c *sim.Config, using map[string]bool) {
				for i := range c.Jobs {
					if using[c.Jobs[i].ID] {
						c.Jobs[i].Where = w
					}
				}
			}
		}
		first, second := modelOf(s.Mixed[0]), modelOf(s.Mixed[1])
		l.uses["prefer "+first] = where(cluster.Where{PreferModel: first})
		l.uses["prefer "+second] = where(cluster.Where{PreferModel: second})
		l.uses["only "+first] = where(cluster.Where{DeviceModel: first})
		l.uses["mixed models"] = where(cluster.Where{MixModels: true})
	case s.Rules == "pollux":
		ranges := s
		ranges.BatchRanges = true
		if runs, err = ranges.Runs(); err != nil {
			t.Fatal(err)
		}
		with := runs[0].Config()
		l.uses["batch ranges"] = func(c *sim.Config, using map[string]bool) { join(c, with, using) }
	default:
		l.none.Terms.Pace = func(j sim.Job, at sim.Standing) (float64, error) { return j.Speed.On(at.Workers()), nil }
		l.uses["batch ranges"] = rangeBatches
		l.uses[control] = scaleAsWell
	}
	return l
}

// modelOf is the model of MODEL=NODES.
func modelOf(mixed string) string {
	model, _, _ := strings.Cut(mixed, "=")
	return model
}

// join has the jobs that use a range be as in another config of the same trace.
func join(c *sim.Config, with sim.Config, using map[string]bool) {
	for i, j := range with.Jobs {
		if using[j.ID] {
			c.Jobs[i] = j
		}
	}
	pace := c.Terms.Pace
	c.Terms.Pace = func(j sim.Job, at sim.Standing) (float64, error) {
		if using[j.ID] {
			return with.Terms.Pace(j, at)
		}
		return pace(j, at)
	}
	c.Terms.Worth = func(j sim.Job, at sim.Standing) (gain, noise float64) {
		if using[j.ID] {
			return with.Terms.Worth(j, at)
		}
		return 1, 0
	}
	c.Terms.Stages = func(j sim.Job) []float64 {
		if using[j.ID] {
			return with.Terms.Stages(j)
		}
		return nil
	}
}

// Where nothing was measured of batches, ranges are of drawnBatch samples up to eight times as many,
// and the gradient noise scale is four times that.
const (
	drawnBatch = 2048
	drawnNoise = 4 * drawnBatch
)

// rangeBatches lets jobs have larger batches: what a step takes in computing grows with the batch, and
// what is left of its time at the smallest one, for which the speeds stand, does not.
func rangeBatches(c *sim.Config, using map[string]bool) {
	for i := range c.Jobs {
		if using[c.Jobs[i].ID] {
			c.Jobs[i].Batch = cluster.BatchSize{Min: drawnBatch, Max: 8 * drawnBatch}
		}
	}
	pace := c.Terms.Pace
	c.Terms.Pace = func(j sim.Job, at sim.Standing) (float64, error) {
		speed, err := pace(j, at)
		if !using[j.ID] || err != nil {
			return speed, err
		}
		computing := min(1/speed, 1/float64(at.Workers()))
		return 1 / (1/speed + float64(computing*(float64(at.Batch)/drawnBatch-1))), nil
	}
	c.Terms.Worth = func(j sim.Job, at sim.Standing) (gain, noise float64) {
		if !using[j.ID] {
			return 1, 0
		}
		return (drawnNoise/drawnBatch + 1) / (drawnNoise/float64(at.Batch) + 1), drawnNoise
	}
}

// control is what no range is in: jobs that are as fast as those with ranges.
const control = "as fast with one batch"

// scaleAsWell gives jobs one batch and the speeds that others have with the best batch of a range.
func scaleAsWell(c *sim.Config, using map[string]bool) {
	pace := c.Terms.Pace
	c.Terms.Pace = func(j sim.Job, at sim.Standing) (float64, error) {
		speed, err := pace(j, at)
		if !using[j.ID] || err != nil {
			return speed, err
		}
		best, computing := speed, min(1/speed, 1/float64(at.Workers()))
		for x := 1.0; x <= 8; x *= math.Pow(2, 1.0/8) {
			step := 1/speed + float64(computing*(x-1))
			best = max(best, (drawnNoise/drawnBatch+1)/(drawnNoise/(x*drawnBatch)+1)/step)
		}
		return best, nil
	}
}

// tellLosses has jobs tell losses that fall, are constant, or are no numbers, by their names.
func tellLosses(c *sim.Config, using map[string]bool) {
	c.Terms.Losses = func(j sim.Job, done float64) (t goodput.Told) {
		if !using[j.ID] {
			return t
		}
		kind := 0
		for _, c := range j.ID {
			kind += int(c)
		}
		t = goodput.Told{Step: int64(done * 3000)}
		t.Told = t.Step
		switch n := float64(t.Step); kind % 3 {
		case 0:
			t.Sum = float64(n * (2 - n/6000))
		case 1:
			t.Sum = n
		default:
			t.Told, t.Bad = 0, t.Step
		}
		return t
	}
}

// half draws which jobs use something.
func (l load) half(seed uint64) map[string]bool {
	using, rng := map[string]bool{}, rand.New(rand.NewPCG(seed, 15))
	for _, j := range l.none.Jobs {
		using[j.ID] = rng.Uint64()%2 == 0
	}
	return using
}

// run gives each job's completion time in seconds.
func (l load) run(t *testing.T, use string, using map[string]bool) map[string]float64 {
	t.Helper()
	c := l.none
	c.Jobs = slices.Clone(c.Jobs)
	if use != "" {
		l.uses[use](&c, using)
	}
	return completions(t, c)
}

func completions(t *testing.T, c sim.Config) map[string]float64 {
	t.Helper()
	r, err := sim.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, o := range r.Jobs {
		if o.Phase != cluster.Succeeded {
			t.Fatalf("%s: %s", o.ID, o.Phase)
		}
		out[o.ID] = (o.End - o.Submit).Seconds()
	}
	return out
}

// change is by how much the means of these jobs differ, and the quantiles of the same job by job.
func change(before, after map[string]float64, of func(id string) bool) (mean float64, quantiles [3]float64) {
	var a, b float64
	var each []float64
	for id, x := range before {
		if of(id) {
			a, b, each = a+x, b+after[id], append(each, after[id]/x-1)
		}
	}
	for i, q := range []float64{0.05, 0.5, 0.95} {
		quantiles[i] = sim.Quantile(each, q)
	}
	return b/a - 1, quantiles
}

// tracesFolder names the folder of the published traces.
const tracesFolder = "BELLOWS_TRACES"

// fewJobs are enough of a drawn load to be simulated with every test.
const fewJobs = 60

// loads are those of the published traces, or a drawn one where there is no folder.
func loads() map[string]batch.Settings {
	dir := os.Getenv(tracesFolder)
	out := map[string]batch.Settings{}
	hu := func(trace string, seed uint64, nodes int) batch.Settings {
		return batch.Settings{Rules: "hu", Traces: []string{trace}, Nodes: []int{nodes}, Model: sim.Model{Seed: seed}}
	}
	if dir == "" {
		out["drawn 1 on 16"] = hu(sim.SyntheticName, 1, 16)
		return out
	}
	for seed := range uint64(5) {
		out[fmt.Sprintf("drawn %d on 110", seed+1)] = hu(sim.SyntheticName, seed+1, 110)
	}
	for _, day := range []string{"09-24", "09-28"} {
		out["Philly "+day+" on 110"] = hu(filepath.Join(dir, "philly", "win_2017-"+day+"_2d_allvc_ge5min.csv"), 1, 110)
	}
	for _, n := range []int{1, 3, 5, 6} {
		out[fmt.Sprintf("Pollux %d on 16x4", n)] = batch.Settings{
			Rules: "pollux", Traces: []string{filepath.Join(dir, "pollux", fmt.Sprintf("load1.0_workload-%d.csv", n))}, Nodes: []int{16}, DevicesPerNode: 4,
		}
	}
	for name, file := range map[string]string{"A100": "testbed_195job_a100.csv", "T4": "fig8a_195job_t4.csv"} {
		out["ElasticFlow "+name] = batch.Settings{
			Traces: []string{filepath.Join(dir, "elasticflow", file)}, Nodes: []int{16}, DevicesPerNode: map[string]int{"A100": 8, "T4": 4}[name],
			Speeds: batch.Speeds{Profile: filepath.Join(dir, "profiles", "elasticflow_"+strings.ToLower(name)+".csv")}, Model: sim.Model{MaxWorkers: 64},
		}
	}
	for _, x := range []struct {
		trace           string
		v100, p100, k80 int // nodes
	}{
		{"physical_max_min_fairness", 3, 3, 3},
		{"physical_max_min_fairness", 2, 2, 2},
		{"physical_max_min_fairness", 1, 2, 3},
		{"physical_minimize_makespan", 3, 3, 3},
		{"physical_minimize_makespan", 2, 2, 2},
		{"msr_seed0_2869ce", 3, 3, 3},
	} {
		out[fmt.Sprintf("Gavel %s on %d+%d+%d", x.trace, x.v100, x.p100, x.k80)] = batch.Settings{
			Traces: []string{filepath.Join(dir, "gavel", x.trace+".csv")}, DevicesPerNode: 4,
			Mixed:  []string{fmt.Sprint("v100=", x.v100), fmt.Sprint("p100=", x.p100), fmt.Sprint("k80=", x.k80)},
			Timing: batch.Timing{Interval: 6 * time.Minute}, Speeds: batch.Speeds{Profile: filepath.Join(dir, "profiles", "gavel_throughputs.csv")}, Model: sim.Model{MaxWorkers: 8},
		}
	}
	return out
}

// What half of the jobs use of the default policy changes for the other half. Losses, which it does not look at,
// change nothing for anyone. docs/policies.md has what the published traces give, and the command.
func TestOthers(t *testing.T) {
	wholeSimulations(t)
	published := os.Getenv(tracesFolder) != ""
	seeds := uint64(1)
	if published {
		seeds = 3
	}
	of := loads()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t.Run(name, func(t *testing.T) {
			l := loadOf(t, of[name])
			none := l.run(t, "", nil)
			for _, use := range slices.Sorted(maps.Keys(l.uses)) {
				if use == control && !published {
					continue
				}
				t.Run(use, func(t *testing.T) { l.compare(t, none, use, seeds) })
			}
		})
	}
}

// compare runs a load in which half of the jobs use something, drawn so many times.
func (l load) compare(t *testing.T, none map[string]float64, use string, seeds uint64) {
	t.Helper()
	var users, others, all float64
	var each [3]float64
	for seed := range seeds {
		using := l.half(seed)
		with := l.run(t, use, using)
		part := func(of func(id string) bool) (mean float64, quantiles [3]float64) {
			mean, quantiles = change(none, with, of)
			return 100 * mean / float64(seeds), quantiles
		}
		u, _ := part(func(id string) bool { return using[id] })
		o, q := part(func(id string) bool { return !using[id] })
		a, _ := part(func(string) bool { return true })
		users, others, all = users+u, others+o, all+a
		for i := range q {
			each[i] += 100 * q[i] / float64(seeds)
		}
	}
	t.Logf("| %+.1f | %+.2f | %+.1f | %+.0f, %+.1f, %+.0f |", users, others, all, each[0], each[1], each[2])
	if use == "losses" && (all != 0 || each != [3]float64{}) {
		t.Error("jobs that tell losses change when jobs end")
	}
}

// Where no job uses any of it, decisions are those of a policy that is told of no range, model or loss.
func TestDecisionsWithoutRangesModelsAndLosses(t *testing.T) {
	wholeSimulations(t)
	of := loads()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if len(of[name].Mixed) > 0 {
			continue // there models are what decisions are about
		}
		t.Run(name, func(t *testing.T) {
			l := loadOf(t, of[name])
			var hashes []string
			for _, p := range []allocator.Policy{l.none.Policy, blind{l.none.Policy}} {
				c := l.none
				c.Policy = p
				r, err := sim.Run(c)
				if err != nil {
					t.Fatal(err)
				}
				hashes = append(hashes, r.LogSHA256)
			}
			if hashes[0] != hashes[1] {
				t.Errorf("%s: %q", name, hashes)
			}
		})
	}
}

// blind is a policy that is told of no batch range, no model of devices and no loss.
type blind struct{ allocator.Policy }

// Prompt implements allocator.Prompt.
func (b blind) Prompt() bool { return allocator.IsPrompt(b.Policy) }

// PromiseSizes implements allocator.Promising.
func (b blind) PromiseSizes(sizes []int) []int {
	return b.Policy.(allocator.Promising).PromiseSizes(sizes)
}

// Allocate implements allocator.Policy.
func (b blind) Allocate(in allocator.Input) allocator.Output {
	in.Jobs = slices.Clone(in.Jobs)
	for i := range in.Jobs {
		j := &in.Jobs[i]
		j.Batches, j.Staying, j.Fastest, j.Loss, j.Models, j.Mixed = nil, 0, nil, nil, nil, false
	}
	return b.Policy.Allocate(in)
}

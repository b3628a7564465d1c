package host

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/recordtest"
)

// Whatever others have written, and whatever shims report, an agent has a plan, and
// what it plans for a job whose records are sound is what it would have been.
func TestRecordsMadeWrongArePlanned(t *testing.T) {
	t.Parallel()
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	const sound = cluster.JobID("starting-aaaaaa")
	sample := recordtest.Sample(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	sample = slices.DeleteFunc(sample, func(kv record.KV) bool { // it is about to start
		return strings.Contains(kv.Key, "/"+string(sound)+"/00000002/") || kv.Key == record.HaltKey(sound, 2)
	})
	spare := func(key string) bool {
		return within(key, []string{record.JobPrefix(sound), record.GrantKey("n1", sound)})
	}
	want := ""
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 2))
		kvs, faults := sample, 1+rng.IntN(20)
		if seed > 0 { // the first is as it should be
			kvs, _ = recordtest.Wrong(rng, sample, faults, spare)
		}
		n := bareNode(t.Context(), Config{Node: "n1", Log: quiet()}, nil)
		n.adoption.unscanned, n.session.presence.aliveRev = nil, 4
		n.records.list(selfPart, []string{record.Root}, kvs, int64(len(sample)))
		for part := range n.goals.wanted() {
			n.records.seen(part, int64(len(sample)))
		}
		n.runLike(rng, sample)
		plans := ""
		for _, a := range agent.Plan(n.goals.desired(), n.goals.observed()) {
			if a.Of().Job == sound {
				plans += a.String() + "\n"
			}
		}
		if seed == 0 {
			want = plans
		}
		if plans != want || want == "" {
			t.Fatalf("seed %d: of the sound job it plans\n%s, not\n%s", seed, plans, want)
		}
		n.lookInto()
	}
}

// runLike gives the node a run of half of the jobs, with a report of anything.
func (n *node) runLike(rng *rand.Rand, sample []record.KV) {
	for _, kv := range sample {
		var plan record.Plan
		if json.Unmarshal(kv.Value, &plan) != nil || len(plan.World.Members) == 0 || plan.World.Job == "starting-aaaaaa" || rng.IntN(2) == 0 {
			continue
		}
		jg := generationOf(plan.World.Job, plan.World.Generation)
		state := []agent.Shim{agent.Absent, agent.Starting, agent.Live, agent.Dead}[rng.IntN(4)]
		r := n.runs.newRun(jg, plan.World.Nonce, "/r/"+string(jg.Job), state)
		r.order = run.Order{Node: "n1", World: plan.World, Checkpoint: "/c/" + string(jg.Job) + "/g00000002-" + plan.World.Nonce, Resume: plan.Resume}
		r.sweep.done = rng.IntN(2) == 0
		report := run.Report{
			Workers: []record.Worker{{}}, Saves: []run.Save{{Step: 60, Dir: r.order.Checkpoint + "/x"}}, Progress: &record.JobProgress{Step: 3},
			Held: &record.Held{Begun: 3}, Failed: &record.Failed{Reason: "x"}, Stopped: &record.Stopped{}, Unkillable: []int{1}, Leftover: []string{"x"},
		}
		text, err := json.Marshal(report)
		if err != nil {
			panic(err)
		}
		for range 1 + rng.IntN(6) {
			text = recordtest.Value(rng, text)
		}
		var got run.Report
		if json.Unmarshal(text, &got) == nil {
			r.report = &got
		}
		r.saves.Found = &agent.Plain{Final: rng.IntN(2) == 0, Step: int64(rng.IntN(3)) - 1, Samples: -1}
	}
}

// lookInto asks all that the owner's loop derives of records and runs.
func (n *node) lookInto() {
	n.runs.current()
	n.adoption.accounted()
	n.runs.onDevices()
	n.report.problems()
	n.shims.forgetAbsent()
	for _, r := range n.runs.all {
		r.problem("")
		n.checkpoints.generation(r)
	}
	for jg := range n.records.self().Acks {
		if plan := n.records.planOf(jg); plan.Exists() {
			n.launcher.order(jg, n.records.mirror.Job(jg.Job).Spec.Value, plan.Value)
			for _, saved := range n.records.self().Saved[jg] {
				title := checkpoint.Title{Job: jg.Job, Generation: jg.Generation, Step: 60, WorldSize: plan.Value.World.Processes()}
				_, _ = checkpoint.Merge(title, []record.Saved{saved.Value, saved.Value})
			}
		}
	}
}

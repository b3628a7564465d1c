package host

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/devices"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/host/saves"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

const (
	// progressEvery is how often progress is recorded at most: it is for people,
	// and etcd has better to do.
	progressEvery = 10 * time.Second
	// lostAtOnce keeps the transaction small that has events of lost saves; the rest go with the next.
	lostAtOnce = 8

	progressLane agent.Lane = "progress"
)

// progress keeps the progress record, for people: how far jobs have come, and
// what is wrong that stops nothing yet. The loop owns it.
type progress struct {
	*shared
	runs    *runs
	session *session
	writer  *writer
	devices *devices.Devices

	written time.Time
}

// write records how far the jobs have come: a generation's first report at
// once, then now and then, and nothing where nothing has changed.
func (pr *progress) write() {
	at := loop.Lane{What: progressLane}
	if !pr.session.joined() || pr.Busy(at) {
		return
	}
	recorded := pr.records.self().Progress.Value.Jobs
	jobs := map[cluster.JobID]record.JobProgress{}
	// What ended stays to be seen as long as its generation does.
	for job, p := range recorded {
		if pr.records.self().Acks[generationOf(job, p.Generation)] != nil {
			jobs[job] = p
		}
	}
	problems := pr.problems()
	fresh := !maps.EqualFunc(problems, pr.records.self().Progress.Value.Problems, sameProblem)
	for jg, r := range pr.runs.all {
		if r.report == nil || r.report.Progress == nil || jobs[jg.Job].Generation > jg.Generation {
			continue
		}
		p := *r.report.Progress
		p.Generation, p.Nonce = jg.Generation, r.nonce
		fresh = fresh || recorded[jg.Job].Generation != jg.Generation
		jobs[jg.Job] = p
	}
	fresh = fresh || pr.lostUntold()
	if !fresh && (maps.EqualFunc(jobs, recorded, sameProgress) || time.Since(pr.written) < progressEvery) {
		return
	}
	pr.written = time.Now()
	ops := append([]record.Op{record.Put(record.ProgressKey(pr.cfg.Node), record.Progress{Jobs: jobs, Problems: problems})}, pr.tellLost()...)
	pr.writer.replace(at, "progress", ops...)
}

func (pr *progress) lostUntold() bool {
	for _, r := range pr.runs.all {
		if r.saves.Lost != "" && !r.saves.Told {
			return true
		}
	}
	return false
}

// tellLost writes events for saves that came to nothing, one until a save is whole again: a
// job may save every second.
func (pr *progress) tellLost() (ops []record.Op) {
	for _, jg := range slices.SortedFunc(maps.Keys(pr.runs.all), agent.Compare) {
		r := pr.runs.all[jg]
		if r.saves.Lost != "" && !r.saves.Told && len(ops) < lostAtOnce {
			ops = append(ops, pr.writer.tell(record.Event{Kind: record.CheckpointLost, Job: jg.Job, Generation: jg.Generation, Why: reason.Said(r.saves.Lost)}))
			r.saves.Told = true
		}
	}
	return ops
}

// problems are those of the runs here, and those that ended with theirs as long
// as their generations can be seen.
func (pr *progress) problems() map[cluster.JobID]record.Problem {
	recorded := pr.records.self().Progress.Value.Problems
	all := map[cluster.JobID]record.Problem{}
	for job, p := range recorded {
		jg := generationOf(job, p.Generation)
		if pr.runs.all[jg] == nil && pr.records.self().Acks[jg] != nil {
			all[job] = p
		}
	}
	for jg, r := range pr.runs.all {
		others := ""
		if member, _, _ := r.order.World.Member(pr.cfg.Node); r.holds() {
			others = pr.devices.Others(member.Devices)
		}
		text := r.problem(others)
		if text == "" || all[jg.Job].Generation > jg.Generation {
			continue
		}
		all[jg.Job] = record.Problem{Generation: jg.Generation, Text: text, At: time.Now()}
	}
	pr.devices.OldLocks(all, func(jg record.JobGen) bool { return pr.runs.all[jg] != nil || pr.records.self().Acks[jg] != nil })
	for job, p := range all {
		if was := recorded[job]; sameProblem(was, p) {
			all[job] = was
		}
	}
	return all
}

func sameProblem(a, b record.Problem) bool { return a.Generation == b.Generation && a.Text == b.Text }

func sameProgress(a, b record.JobProgress) bool {
	return a.Generation == b.Generation && a.Nonce == b.Nonce && a.Step == b.Step && a.Samples == b.Samples && a.NoiseScale == b.NoiseScale
}

// problem is what people should know of a run, with others on its devices; "" = nothing.
func (r *hosted) problem(others string) string {
	var all []string
	for _, p := range []string{r.saves.Lost, saves.Apart(r.order, r.report), r.saves.Short, others, r.sweep.problem, r.stuck()} {
		if p != "" {
			all = append(all, p)
		}
	}
	if r.report != nil && r.report.ProgressProblem != "" {
		all = append(all, r.report.ProgressProblem)
	}
	if r.report != nil && len(r.report.Leftover) > 0 {
		all = append(all, "its workers left processes behind, which were killed: "+strings.Join(r.report.Leftover, ", "))
	}
	return strings.Join(all, "; ")
}

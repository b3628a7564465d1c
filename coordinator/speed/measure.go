package speed

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Measures is what the reports of running generations have shown, and what was
// learnt of it: the records of progress hold the newest report only. What is worth
// keeping is in each job's speed record; from there a new leader goes on, without
// the windows of the generation that runs.
type Measures struct {
	off bool // nothing is measured
	// listing: what is taken in is older than this leader's clock can tell.
	listing bool
	of      map[cluster.JobID]*measure
	seen    map[cluster.JobID]*learned

	fleet      time.Duration // median cost of a start, over all jobs; 0 = unknown
	fleetKnown bool
	ended      goodput.History    // how predictions came out, of all kinds
	took       []forecast.Took    // what jobs of all kinds took
	levels     map[string]float64 // how fast one device of each model is (forecast.Levels)
	endedKnown bool               // both are those of the records
}

// measure is one generation.
type measure struct {
	generation cluster.Generation
	nonce      string
	model      string // of its devices
	meter      goodput.Meter
	last       map[cluster.NodeID]record.JobProgress // that were folded
	points     []record.SpeedPoint                   // of generations before, which no record has yet
	folds      int                                   // reports
	loss       goodput.LossMeter
	noise      float64 // gradient noise scale that it has told; 0 = none
	leastNoise float64 // the least of these
	// before is for how many seconds generations before did steps that count, where no
	// record has all of that yet; -1 = the job's speed record has.
	before float64
}

// New returns measures that have taken in nothing yet. If off, nothing is ever
// measured, and forecasts rest on what owners state.
func New(off bool) *Measures {
	return &Measures{off: off, of: map[cluster.JobID]*measure{}, seen: map[cluster.JobID]*learned{}}
}

// Off reports whether nothing is measured.
func (ms *Measures) Off() bool { return ms.off }

// Take takes in what a change may tell of the progress of jobs.
func (ms *Measures) Take(m *record.Mirror, at record.Place, now time.Time) { // now is by the leader's own clock: ADR 30
	if ms.off {
		return
	}
	switch at.Kind { //nolint:exhaustive // the others tell nothing of it
	case record.KindProgress:
		node := m.Node(at.Node)
		for job, p := range node.Progress.Value.Jobs {
			ms.fold(m, m.Job(job), report{at.Node, p, now})
		}
	case record.KindAck:
		jg := record.JobGen{Job: at.Job, Generation: at.Generation}
		if a := m.Node(at.Node).Acks[jg]; a != nil && a.Stopped.Value.Progress != nil {
			p := *a.Stopped.Value.Progress
			p.Generation, p.Nonce = cmp.Or(p.Generation, at.Generation), cmp.Or(p.Nonce, a.Stopped.Value.Nonce)
			ms.fold(m, m.Job(at.Job), report{at.Node, p, now})
		}
	case record.KindSpeed:
		ms.fleetKnown = false
		if v := m.Job(at.Job); v.State.Value.Phase.Terminal() && v.Speed.Value.Generation == v.State.Value.Generation {
			delete(ms.of, at.Job) // all of it is recorded
		}
	case record.KindJobKind:
		ms.endedKnown = false
	}
}

// TakeAll takes in what a listing tells.
func (ms *Measures) TakeAll(m *record.Mirror, now time.Time) {
	ms.fleetKnown, ms.endedKnown, ms.listing = false, false, true
	defer func() { ms.listing = false }()
	for _, id := range m.NodeIDs() {
		ms.Take(m, record.Place{Kind: record.KindProgress, Node: id}, now)
	}
}

// report is one node's word on a job.
type report struct {
	node cluster.NodeID
	record.JobProgress
	seen time.Time
}

// fold takes one node's report of a job in, if it is of its newest generation.
func (ms *Measures) fold(mirror *record.Mirror, v *record.JobView, r report) {
	plan := v.Generation(r.Generation).Plan.Value
	_, _, member := plan.World.Member(r.node)
	if !member || r.Generation != v.State.Value.Generation || v.State.Value.Phase.Terminal() || r.Nonce != plan.World.Nonce || r.At.IsZero() {
		return
	}
	m := ms.of[v.ID]
	if m == nil || m.generation != r.Generation || m.nonce != r.Nonce {
		before := m
		m = &measure{generation: r.Generation, nonce: r.Nonce, model: devicesModel(mirror, plan.World), last: map[cluster.NodeID]record.JobProgress{}, before: -1}
		if before != nil && before.generation < r.Generation {
			m.points, m.before = before.merged(v, before.points), before.counts(v)
		}
		if !ms.listing {
			m.meter = goodput.After(begins(v, plan, r.seen, m.points))
		}
		m.loss = lossBefore(v, plan, before, r.Step)
		ms.of[v.ID] = m
	}
	if r.FirstAt.IsZero() { // as in the last word of a script
		r.FirstAt = m.last[r.node].FirstAt
	}
	m.last[r.node] = r.JobProgress
	m.folds++
	if told := r.NoiseScale; r.node == plan.World.Members[0].Node && record.SoundNoise(told) && (m.noise == 0 || math.Abs(math.Log(told/m.noise)) > newNoise) {
		m.noise = told
		m.leastNoise = leastNoise(m.leastNoise, told)
	}
	m.loss.Fold(toldLosses(m.last))
	m.meter.Fold(goodput.Sample{Node: string(r.node), At: r.At, Seen: r.seen, Step: r.Step, Samples: r.Samples})
}

// lossBefore are the windows of losses that a generation goes on with, as its first report
// is of a step: of those before it as they were seen, or else as they are recorded. A leader that
// takes over in the middle of a generation goes on with those recorded of it.
func lossBefore(v *record.JobView, plan record.Plan, before *measure, step int64) goodput.LossMeter {
	if plan.Resume != nil && v.Speed.Value.Generation != v.State.Value.Generation {
		step = plan.Resume.Step
	}
	if before != nil {
		return before.loss.Next(step)
	}
	recorded := goodput.LossMeter{Windows: forecast.LossesOf(v.Speed.Value.Losses)}
	return recorded.Next(step)
}

// toldLosses is what the nodes of a generation have told, up to the step of the first of them.
func toldLosses(last map[cluster.NodeID]record.JobProgress) (t goodput.Told) {
	for _, node := range slices.Sorted(maps.Keys(last)) { // sums depend on the order
		p := last[node]
		t.Step = max(t.Step, p.Step)
		t.Sum += p.LossSum
		t.Told += p.Losses
		t.Bad += p.BadLosses
	}
	return t
}

// leastNoise is the less of two noise scales; 0 = not told.
func leastNoise(a, b float64) float64 {
	if a > 0 && b > 0 {
		return min(a, b)
	}
	return max(a, b)
}

// newNoise is by how much the gradient noise scale must have changed, as a log, to count: the
// best batch goes with its root at most.
const newNoise = 0.1

// begins is what is known of a job as its generation makes its first report.
func begins(v *record.JobView, plan record.Plan, seen time.Time, unrecorded []record.SpeedPoint) goodput.Before {
	b := goodput.Before{At: seen.Add(min(0, plan.At.Sub(seen.Round(0))))}
	if plan.Resume != nil {
		b.Step = plan.Resume.Step
	}
	for _, points := range [][]record.SpeedPoint{v.Speed.Value.Points, unrecorded} {
		for _, p := range points {
			b.Usual = max(b.Usual, p.StepsPerSecond)
		}
	}
	return b
}

// merged are points with that of the measured generation among them.
func (m *measure) merged(v *record.JobView, points []record.SpeedPoint) []record.SpeedPoint {
	rate, ok := m.meter.Rate()
	plan := v.Generation(m.generation).Plan.Value
	if !ok || m.meter.Fault().Void || plan.World.Size() == 0 {
		return points
	}
	return withPoint(points, record.SpeedPoint{
		Workers: plan.World.Size(), Nodes: len(plan.World.Members), Model: m.model, Batch: plan.World.BatchSize, Generation: m.generation,
		StepsPerSecond: rate.PerSecond, Low: rate.Low, High: rate.High, Windows: rate.Windows,
	})
}

// useful is for how many seconds the generation did steps: by the clock of the node that did for longest.
func (m *measure) useful() float64 {
	most := 0.0
	if m.meter.Fault().Void {
		return 0
	}
	for _, p := range m.last {
		if !p.FirstAt.IsZero() {
			most = max(most, p.At.Sub(p.FirstAt).Seconds())
		}
	}
	return min(most, (365 * 24 * time.Hour).Seconds())
}

// countsBefore is for how many seconds generations before this one did steps that count.
func (m *measure) countsBefore(v *record.JobView) float64 {
	was := v.Speed.Value
	if was.Generation == m.generation {
		return was.UsefulBeforeS
	}
	before := m.before
	if before < 0 {
		before = was.UsefulS
	}
	return max(0, before-m.lostSeconds(v))
}

// counts is for how many it and those before it did.
func (m *measure) counts(v *record.JobView) float64 { return m.countsBefore(v) + m.useful() }

// lostSeconds is what it took to do the steps that were lost with the generation before.
func (m *measure) lostSeconds(v *record.JobView) float64 {
	lost := v.Rescales[m.generation].Value.LostSteps
	for _, points := range [][]record.SpeedPoint{m.points, v.Speed.Value.Points} {
		for _, p := range points {
			if p.Generation+1 == m.generation && lost > 0 {
				return float64(lost) / p.StepsPerSecond
			}
		}
	}
	return 0
}

// enoughWindows is how many windows of a generation replace what was measured of the
// same world before: a script may have changed since.
const enoughWindows = 8

// withPoint returns the points with one more, in the place of that of the same world.
// Where there are too many, that goes which was measured longest ago.
func withPoint(points []record.SpeedPoint, p record.SpeedPoint) []record.SpeedPoint {
	points = slices.Clone(points)
	for i, o := range points {
		if o.Workers == p.Workers && (o.Nodes > 1) == (p.Nodes > 1) && o.Model == p.Model && o.Batch == p.Batch {
			if p.Windows >= min(o.Windows, enoughWindows) {
				points[i] = p
			}
			return points
		}
	}
	points = append(points, p)
	if len(points) > record.MaxSpeedPoints {
		oldest := 0
		for i, o := range points {
			if o.Generation < points[oldest].Generation {
				oldest = i
			}
		}
		points = slices.Delete(points, oldest, oldest+1)
	}
	slices.SortStableFunc(points, func(a, b record.SpeedPoint) int { return cmp.Or(a.Workers-b.Workers, a.Nodes-b.Nodes) })
	return points
}

// fleetStart is what a start costs in the cluster: the median of all jobs' newest; 0 = unknown.
func (ms *Measures) fleetStart(m *record.Mirror) time.Duration {
	if !ms.fleetKnown {
		var all []float64
		for _, v := range m.Jobs {
			if starts := v.Speed.Value.Starts; len(starts) > 0 {
				all = append(all, starts[len(starts)-1].Seconds)
			}
		}
		slices.Sort(all)
		ms.fleet, ms.fleetKnown = 0, true
		if n := len(all); n >= leastFleet {
			ms.fleet = secondsOf(all[n/2])
		}
	}
	return ms.fleet
}

// history is how predictions came out, of jobs of all kinds.
func (ms *Measures) history(m *record.Mirror) goodput.History {
	ms.readKinds(m)
	return ms.ended
}

// fleetTook is what jobs of all kinds took.
func (ms *Measures) fleetTook(m *record.Mirror) []forecast.Took {
	ms.readKinds(m)
	return ms.took
}

// level is how fast one device of a model is among those of all models; 1 where that is not known.
func (ms *Measures) level(m *record.Mirror, model string) float64 {
	ms.readKinds(m)
	if v := ms.levels[model]; v > 0 {
		return v
	}
	return 1
}

func (ms *Measures) readKinds(m *record.Mirror) {
	if !ms.endedKnown {
		ms.ended, ms.took, ms.endedKnown = forecast.HistoryOf(m.Kinds), forecast.FleetTookOf(m.Kinds), true
		ms.levels = forecast.Levels(m.Kinds)
	}
}

// leastFleet is how many jobs must have started for the cluster to have a usual cost.
const leastFleet = 3

func secondsOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Unlearn drops what was learnt of a job, so that it is learnt anew of its own record.
func (ms *Measures) Unlearn(id cluster.JobID) { delete(ms.seen, id) }

// Forget drops what is known of a job that is gone.
func (ms *Measures) Forget(id cluster.JobID) {
	delete(ms.of, id)
	delete(ms.seen, id)
}

// devicesModel is the model of the world's devices; empty where it is unknown or there are several.
func devicesModel(mirror *record.Mirror, w cluster.World) string {
	models := map[string]bool{}
	for _, m := range w.Members {
		for _, d := range mirror.Node(m.Node).Inventory.Value.Devices {
			if slices.Contains(m.Devices, d.ID) {
				models[d.ModelName()] = true
			}
		}
	}
	if len(models) != 1 {
		return ""
	}
	for model := range models {
		return model
	}
	return ""
}

package coordinator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// speedEvery is how long it takes at least from one speed record of a generation to the next.
	speedEvery = time.Minute
	// speedAtLeast is how long it takes at most until small changes are recorded: so
	// long, or the part speedAtLeastPart of the generation's age, but not more than speedAtLeastEver.
	speedAtLeast     = 5 * time.Minute
	speedAtLeastPart = 8
	speedAtLeastEver = time.Hour
	// material is by which part a number must have changed to be recorded at once.
	material = 0.03
	// silentFor is how long a job may run without a report before that is said.
	silentFor = 5 * time.Minute
)

// recordSpeed writes down what was measured of a job: when the first generation of a
// world runs, once a minute at most while it does, and when it is over.
func recordSpeed(in situation) *move {
	m := in.measures.of[in.ID]
	if in.measures.off || m == nil && !silent(in) {
		return nil
	}
	if m == nil {
		was := in.Speed.Value
		return writeSpeed(in, record.Speed{
			Generation: in.number(), Step: -1, Samples: -1, Points: was.Points, Starts: was.Starts, Problem: silentText,
			NoiseScale: was.NoiseScale, LeastNoise: was.LeastNoise, Losses: was.Losses, LossFlat: was.LossFlat, BaseSteps: was.BaseSteps, Told: was.Told, UsefulS: was.UsefulS, UsefulBeforeS: was.UsefulS,
		})
	}
	if m.generation != in.number() || recordedLately(in, m) {
		return nil
	}
	known, this := learn(in), looked{in.State.Mod, in.Speed.Mod, m.folds}
	if known.looked == this {
		return nil
	}
	next := speedOf(in, m)
	news, again := worthRecording(in, next)
	if !news {
		if again.IsZero() {
			known.looked = this
		}
		in.wake(again)
		return nil
	}
	out := writeSpeed(in, next)
	if r, ok := in.LastResize(); ok && in.Speed.Value.MeasuredGain(r) == 0 {
		if gain := next.MeasuredGain(r); gain > 0 {
			out.event = record.Event{
				Kind: record.JobGained, Job: in.ID, Generation: r.Generation, From: r.From, To: r.To, Predicted: r.Predicted, Measured: gain,
			}
		}
	}
	return out
}

// recordedLately reports whether the generation's speed was recorded less than
// speedEvery ago, by the leader's clock.
func recordedLately(in situation, m *measure) bool {
	was := in.Speed.Value
	if was.Generation != m.generation || in.state().Phase.Terminal() {
		return false
	}
	due := in.since(wait{in.ID, speedWait}, was.At).Add(speedEvery)
	if !in.clock.Before(due) {
		return false
	}
	in.wake(due)
	return true
}

// worthRecording reports whether next tells something that the record does not; if
// not, it may say from when on it does without any further report.
func worthRecording(in situation, next record.Speed) (news bool, again time.Time) {
	was, over := in.Speed.Value, !in.state().Phase.Active()
	switch {
	case len(next.Points)+len(next.Starts)+len(next.Curve) == 0 && next.Prediction == nil && next.Problem == was.Problem && next.LossFlat == was.LossFlat:
		return false, time.Time{}
	case over:
		return unlike(was, next), time.Time{}
	case was.Generation != next.Generation:
		soon := in.since(wait{in.ID, speedWait}, in.state().Since).Add(speedEvery)
		if next.Curve == nil && next.Problem == "" && in.clock.Before(soon) {
			return false, soon // its speed is about to be known
		}
		return true, time.Time{}
	}
	age := was.At.Sub(in.gen.Plan.Value.At)
	late := in.since(wait{in.ID, speedWait}, was.At).Add(min(max(speedAtLeast, age/speedAtLeastPart), speedAtLeastEver))
	return unlike(was, next) || !in.clock.Before(late), time.Time{}
}

const silentText = "nothing is reported: its speed, its end and what is left are unknown; import bellows in the script, have its lines read by --progress, or see --steps and --eta"

// silent reports whether the job has run for long without a report, and that was not said.
func silent(in situation) bool {
	s := in.state()
	if s.Phase != cluster.Running || in.Speed.Value.Problem == silentText && in.Speed.Value.Generation == s.Generation {
		return false
	}
	at := in.since(wait{in.ID, speedWait}, s.Since).Add(silentFor)
	if in.clock.Before(at) {
		in.wake(at)
		return false
	}
	return true
}

func writeSpeed(in situation, s record.Speed) *move {
	s.At = in.now
	return &move{verb: "speed", job: in.JobView, then: []record.Op{record.Put(record.SpeedKey(in.ID), s)}}
}

// unlike reports whether two records of one job's speed differ in what matters.
func unlike(was, now record.Speed) bool {
	if was.NoiseScale != now.NoiseScale || was.Generation != now.Generation || was.Problem != now.Problem || was.LossFlat != now.LossFlat || !slices.Equal(was.Starts, now.Starts) ||
		len(was.Points) != len(now.Points) || (was.Prediction == nil) != (now.Prediction == nil) {
		return true
	}
	for i, p := range now.Points {
		o := was.Points[i]
		if o.Workers != p.Workers || o.Nodes != p.Nodes || p.Windows >= 2*o.Windows || math.Abs(p.StepsPerSecond/o.StepsPerSecond-1) > material {
			return true
		}
	}
	if now.Prediction == nil {
		return false
	}
	off := now.Prediction.End.Sub(was.Prediction.End).Abs()
	return off > max(30*time.Second, secondsOf(material*now.Prediction.RemainingS))
}

// speedOf is what is recorded of the job now.
func speedOf(in situation, m *measure) record.Speed {
	was := in.Speed.Value
	s := record.Speed{Generation: m.generation, Step: -1, Samples: -1, Starts: was.Starts, UsefulBeforeS: was.UsefulBeforeS}
	if was.Generation == m.generation {
		s.Kind = was.Kind
	} else {
		s.UsefulBeforeS = m.countsBefore(in.JobView)
	}
	s.Points = measured(in)
	if step, samples, ok := m.meter.Step(); ok && !void(in) {
		s.Step, s.Samples = step, cmp.Or(samples, -1)
	}
	s.Losses, s.LossFlat = lossWindows(in), lossFlat(in)
	s.NoiseScale, s.LeastNoise, s.BaseSteps = toldNoise(in), leastNoise(was.LeastNoise, m.leastNoise), was.BaseSteps
	if b := in.Spec.Value.BatchSize; b.Max > b.Min && s.Step >= 0 {
		s.BaseSteps = inBaseSteps(in, m, s.Step)
	}
	trained, _ := in.trained(in.now)
	s.TrainedS = trained.Seconds()
	s.UsefulS = min(s.UsefulBeforeS+m.useful(), s.TrainedS) // a node's clock may have been set
	if p, ok := startPoint(in, m); ok && !slices.ContainsFunc(s.Starts, func(o record.StartPoint) bool { return o.Generation == p.Generation }) {
		s.Starts = append(slices.Clone(s.Starts), p)
		s.Starts = s.Starts[max(0, len(s.Starts)-record.MaxStartPoints):]
	}
	tell(in, m, &s)
	return s
}

// tell adds what people are told: the curve, the predicted end, what is wrong.
func tell(in situation, m *measure, s *record.Speed) {
	done, told := stepsDone(in)
	f := stepsOf(in)
	f.Steps, f.ETA, f.Starts = in.Spec.Value.Steps, time.Duration(in.Spec.Value.ETA), forecast.StartsOf(s.Starts)
	f.Done, f.Reported, f.Void = done, told, void(in)
	f.Trained, f.Service = in.trained(in.now)
	now := learn(in).Of(f)
	for i, e := range now.Curve[:min(len(now.Curve), record.MaxCurve)] {
		own := slices.ContainsFunc(s.Points, func(p record.SpeedPoint) bool { return p.Workers == in.sizes[i] })
		s.Curve = append(s.Curve, record.CurvePoint{Workers: in.sizes[i], StepsPerSecond: e.PerSecond, Batch: batchAt(now.Batches, i), Measured: own})
	}
	fault := m.meter.Fault()
	s.Problem = fault.Text
	if now.Doubt != "" && !fault.Void {
		s.Problem = join(s.Problem, now.Doubt)
	}
	if fault.Void {
		s.Problem += ": what it reports is not used"
	}
	if steps := in.Spec.Value.Steps; steps > 0 && done > steps && told {
		s.Problem = join(s.Problem, fmt.Sprintf("it reports step %d of %d (--steps)", done, steps))
	}
	world := in.world()
	if size := world.Size(); in.state().Phase.Active() && size > 0 && now.Work.Known && !now.Work.Done() {
		s.Prediction = prediction(in, f, m)
	}
	s.Told = in.Speed.Value.Told
	if p := s.Prediction; p != nil {
		s.Told = withTold(s.Told, record.ToldEnd{At: in.now, RemainingS: math.Round(p.RemainingS)})
	}
}

func batchAt(batches []int, i int) int {
	if i < len(batches) {
		return batches[i]
	}
	return 0
}

// withTold is the list with one more. Where there are too many, every second goes, so
// that those that stay are spread over all of the job's time.
func withTold(told []record.ToldEnd, p record.ToldEnd) []record.ToldEnd {
	told = append(slices.Clone(told), p)
	if len(told) <= record.MaxTold {
		return told
	}
	var kept []record.ToldEnd
	for i := 0; i < len(told); i += 2 {
		kept = append(kept, told[i])
	}
	return kept
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// prediction is when the job ends in its present world.
func prediction(in situation, j forecast.Job, m *measure) *record.Prediction {
	f, left := learn(in).Of(j), j.Steps-j.Done
	rest := goodput.Rest{Steps: max(0, left)}
	speed, known := f.Speed(j)
	if known && in.Spec.Value.Steps > 0 {
		rest.Speed = speed
		if r, ok := m.meter.Rate(); ok && r.PerSecond > 0 {
			rest.Pace = r.Pace / r.PerSecond
		}
	} else { // by its owner's estimate, in milliseconds of one device
		at := goodput.Default(j.In.Workers)
		if known {
			at = f.Relative(speed)
		}
		rest.Steps = f.Work.Left.Milliseconds()
		rest.Speed = goodput.Estimate{PerSecond: 1000 * at, Low: 1000 * at / statedSpread, High: 1000 * at * statedSpread}
	}
	end, ok := goodput.PredictEnd(in.now, rest)
	if !ok {
		return nil
	}
	end = in.measures.history(in.mirror).Widen(in.now, end)
	return &record.Prediction{RemainingS: end.At.Sub(in.now).Seconds(), End: end.At, Low: end.Low, High: end.High}
}

// statedSpread is by which factor an owner's estimate is taken to be off in nine of ten cases.
const statedSpread = 2

// startPoint is what the generation's start has cost, once all of it is known: the
// parts that the leader has accounted for, and on one node, by its clock, from the
// first exec to the first step.
func startPoint(in situation, m *measure) (record.StartPoint, bool) {
	r := in.Rescales[m.generation]
	if !r.Exists() || m.meter.Fault().Void {
		return record.StartPoint{}, false
	}
	booted := time.Duration(0)
	for node, p := range m.last {
		execed := in.node(node).Ack(in.ID, m.generation, m.nonce).Started.Value.ExecedAt
		if !p.FirstAt.IsZero() && !execed.IsZero() {
			booted = max(booted, min(p.FirstAt.Sub(execed), in.now.Sub(in.gen.Plan.Value.At))) // its clock may have been set
		}
	}
	if booted <= 0 {
		return record.StartPoint{}, false
	}
	cost := r.Value.StartS + booted.Seconds()
	if r.Value.From > 0 {
		cost += r.Value.SignalS + r.Value.SaveS + r.Value.CommitS
	}
	return record.StartPoint{Generation: m.generation, Workers: in.world().Size(), Seconds: math.Round(cost*1000) / 1000}, true
}

// recordKind adds what a job that has ended has shown to what is known of its kind.
func recordKind(in situation) *move {
	s := in.Speed.Value
	if in.measures.off || s.Kind != "" || len(s.Points)+len(s.Starts) == 0 && !lengthAlone(in) || void(in) {
		return nil
	}
	name := in.Spec.Value.KindName()
	if cluster.CheckKind(name) != nil {
		return nil
	}
	if !in.Speed.Exists() {
		s = record.Speed{Generation: in.number(), At: in.now, Step: -1, Samples: -1}
	}
	uid, was := in.Spec.Value.Owner.UID, kindOf(in, name)
	k := record.JobKind{At: in.now, Job: in.ID, Jobs: was.Value.Jobs + 1, Points: was.Value.Points, Starts: was.Value.Starts}
	k.Points = slices.Clone(k.Points)
	for i := range k.Points {
		k.Points[i].Generation = 0 // older than all of this job
	}
	for _, p := range s.Points {
		k.Points = withPoint(k.Points, p)
	}
	k.Starts = append(slices.Clone(k.Starts), s.Starts...)
	k.Starts = k.Starts[max(0, len(k.Starts)-record.MaxStartPoints):]
	k.Ends, k.Lengths, k.NoiseScale = was.Value.Ends, was.Value.Lengths, cmp.Or(s.LeastNoise, was.Value.NoiseScale)
	if in.state().Phase == cluster.Succeeded {
		k.Ends, k.Lengths = withEnds(k.Ends, s.Told, in.state().Since), withLength(k.Lengths, in)
	}
	s.Kind, s.Prediction = name, nil
	then := []record.Op{record.Put(record.SpeedKey(in.ID), s), record.Put(record.JobKindKey(uid, name), k)}
	for i, old := range in.mirror.OldestKinds(uid, name) {
		if i < kindsAtOnce {
			then = append(then, record.Delete(record.JobKindKey(uid, old)))
		}
	}
	return &move{
		verb: "kind", job: in.JobView, then: then,
		ifs: []record.Compare{record.Unchanged(record.JobKindKey(uid, name), was.Mod)},
	}
}

// lengthAlone reports whether a job that has told nothing has succeeded, and taken long
// enough to tell how much jobs of its kind take: by its time with workers.
func lengthAlone(in situation) bool {
	trained, _ := in.trained(in.now)
	return in.state().Phase == cluster.Succeeded && trained >= leastLength
}

// leastLength is the least time with workers that a kind learns of by itself.
const leastLength = time.Minute

// withEnds adds how some of a job's predictions came out, the same number of each job.
func withEnds(ends []record.EndPoint, told []record.ToldEnd, ended time.Time) []record.EndPoint {
	ends = slices.Clone(ends)
	for i := range min(len(told), endsOfAJob) {
		t := told[(2*i+1)*len(told)/(2*min(len(told), endsOfAJob))]
		if actual := ended.Sub(t.At).Seconds(); actual >= 0 {
			ends = append(ends, record.EndPoint{PredictedS: t.RemainingS, ActualS: math.Round(actual)})
		}
	}
	return ends[max(0, len(ends)-record.MaxEnds):]
}

// withLength adds how much the job took that has succeeded.
func withLength(lengths []record.Length, in situation) []record.Length {
	done := max(in.Speed.Value.Step, in.Speed.Value.BaseSteps)
	j := forecast.Job{Done: done, Reported: in.Speed.Value.Step > 0, PerNode: in.perNode()}
	j.Trained, j.Service = in.trained(in.now)
	l, ok := learn(in).Length(j)
	if !ok {
		return lengths
	}
	l.WorkS = math.Round(l.WorkS*1000) / 1000
	lengths = append(slices.Clone(lengths), l)
	return lengths[max(0, len(lengths)-record.MaxLengths):]
}

// endsOfAJob is of how many predictions of one job it is kept how they came out.
const endsOfAJob = 4

// kindsAtOnce keeps the transaction well below etcd's operations.
const kindsAtOnce = 4

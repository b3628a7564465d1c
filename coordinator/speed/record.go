package speed

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/record"
)

// material is by which part a number must have changed to be recorded at once.
const material = 0.03

// Unlike reports whether two records of one job's speed differ in what matters.
func Unlike(was, now record.Speed) bool {
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

// Record is what is to be written to the job's speed record now; its newest generation has reported something.
func (k Known) Record() record.Speed {
	m, was := k.run, k.Speed.Value
	s := record.Speed{Generation: m.generation, Step: -1, Samples: -1, Starts: was.Starts, UsefulBeforeS: was.UsefulBeforeS}
	if was.Generation == m.generation {
		s.Kind = was.Kind
	} else {
		s.UsefulBeforeS = m.countsBefore(k.JobView)
	}
	s.Points = k.measured()
	if step, samples, ok := m.meter.Step(); ok && !k.Void() {
		s.Step, s.Samples = step, cmp.Or(samples, -1)
	}
	s.Losses, s.LossFlat = k.lossWindows(), k.lossFlat()
	s.NoiseScale, s.LeastNoise, s.BaseSteps = k.toldNoise(), leastNoise(was.LeastNoise, m.leastNoise), was.BaseSteps
	if b := k.Spec.Value.BatchSize; b.Max > b.Min && s.Step >= 0 {
		s.BaseSteps = k.inBaseSteps(s.Step)
	}
	s.TrainedS = k.Trained.Seconds()
	s.UsefulS = min(s.UsefulBeforeS+m.useful(), s.TrainedS) // a node's clock may have been set
	if p, ok := k.startPoint(); ok && !slices.ContainsFunc(s.Starts, func(o record.StartPoint) bool { return o.Generation == p.Generation }) {
		s.Starts = append(slices.Clone(s.Starts), p)
		s.Starts = s.Starts[max(0, len(s.Starts)-record.MaxStartPoints):]
	}
	k.tell(&s)
	return s
}

// tell adds what people are told: the curve, the predicted end, what is wrong.
func (k Known) tell(s *record.Speed) {
	done, told := k.StepsDone()
	f := k.steps()
	f.Steps, f.ETA, f.Starts = k.Spec.Value.Steps, time.Duration(k.Spec.Value.ETA), forecast.StartsOf(s.Starts)
	f.Done, f.Reported, f.Void = done, told, k.Void()
	f.Trained, f.Service = k.Trained, k.Service
	now := k.learn().Of(f)
	for i, e := range now.Curve[:min(len(now.Curve), record.MaxCurve)] {
		own := slices.ContainsFunc(s.Points, func(p record.SpeedPoint) bool { return p.Workers == k.Sizes[i] })
		s.Curve = append(s.Curve, record.CurvePoint{Workers: k.Sizes[i], StepsPerSecond: e.PerSecond, Batch: batchAt(now.Batches, i), Measured: own})
	}
	fault := k.run.meter.Fault()
	s.Problem = fault.Text
	if now.Doubt != "" && !fault.Void {
		s.Problem = join(s.Problem, now.Doubt)
	}
	if fault.Void {
		s.Problem += ": what it reports is not used"
	}
	if steps := k.Spec.Value.Steps; steps > 0 && done > steps && told {
		s.Problem = join(s.Problem, fmt.Sprintf("it reports step %d of %d (--steps)", done, steps))
	}
	if size := k.world().Size(); k.active() && size > 0 && now.Work.Known && !now.Work.Done() {
		s.Prediction = k.prediction(f)
	}
	s.Told = k.Speed.Value.Told
	if p := s.Prediction; p != nil {
		s.Told = withTold(s.Told, record.ToldEnd{At: k.now, RemainingS: math.Round(p.RemainingS)})
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
func (k Known) prediction(j forecast.Job) *record.Prediction {
	f, left := k.learn().Of(j), j.Steps-j.Done
	rest := goodput.Rest{Steps: max(0, left)}
	speed, known := f.Speed(j)
	if known && k.Spec.Value.Steps > 0 {
		rest.Speed = speed
		if r, ok := k.run.meter.Rate(); ok && r.PerSecond > 0 {
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
	end, ok := goodput.PredictEnd(k.now, rest)
	if !ok {
		return nil
	}
	end = k.all.history(k.mirror).Widen(k.now, end)
	return &record.Prediction{RemainingS: end.At.Sub(k.now).Seconds(), End: end.At, Low: end.Low, High: end.High}
}

// statedSpread is by which factor an owner's estimate is taken to be off in nine of ten cases.
const statedSpread = 2

// startPoint is what the generation's start has cost, once all of it is known: the
// parts that the leader has accounted for, and on one node, by its clock, from the
// first exec to the first step.
func (k Known) startPoint() (record.StartPoint, bool) {
	m := k.run
	r := k.Rescales[m.generation]
	if !r.Exists() || m.meter.Fault().Void {
		return record.StartPoint{}, false
	}
	booted := time.Duration(0)
	for node, p := range m.last {
		execed := k.mirror.Node(node).Ack(k.ID, m.generation, m.nonce).Started.Value.ExecedAt
		if !p.FirstAt.IsZero() && !execed.IsZero() {
			booted = max(booted, min(p.FirstAt.Sub(execed), k.now.Sub(k.Gen.Plan.Value.At))) // its clock may have been set
		}
	}
	if booted <= 0 {
		return record.StartPoint{}, false
	}
	cost := r.Value.StartS + booted.Seconds()
	if r.Value.From > 0 {
		cost += r.Value.SignalS + r.Value.SaveS + r.Value.CommitS
	}
	return record.StartPoint{Generation: m.generation, Workers: k.world().Size(), Seconds: math.Round(cost*1000) / 1000}, true
}

// Silent is what is recorded of a job that runs, and reports nothing: all that is known from before stays.
func (k Known) Silent() record.Speed {
	s := k.Speed.Value
	return record.Speed{
		Generation: k.State.Value.Generation, Step: -1, Samples: -1, Points: s.Points, Starts: s.Starts, Silent: true, Problem: silentText,
		NoiseScale: s.NoiseScale, LeastNoise: s.LeastNoise, Losses: s.Losses, LossFlat: s.LossFlat, BaseSteps: s.BaseSteps,
		Told: s.Told, UsefulS: s.UsefulS,
		UsefulBeforeS: s.UsefulS, // the record is of this generation from now on: all of it was before
	}
}

const silentText = "nothing is reported: its speed, its end and what is left are unknown; import bellows in the script, have its lines read by --progress, or see --steps and --eta"

// SilenceRecorded reports whether the job's record says already that its newest generation reports nothing.
func (k Known) SilenceRecorded() bool {
	return k.Speed.Value.Silent && k.Speed.Value.Generation == k.State.Value.Generation
}

// Unheard reports whether no generation of the job has reported anything since this leader took over.
func (k Known) Unheard() bool { return k.all.of[k.ID] == nil }

// Reporting reports whether its newest generation has reported something.
func (k Known) Reporting() bool { return k.run != nil }

// Recorded reports whether nothing was reported or recorded since RecordedAll was called.
func (k Known) Recorded() bool { return k.learn().recorded == k.looked() }

// RecordedAll notes that the speed record tells all that is worth recording, so that it need not be compared again.
func (k Known) RecordedAll() { k.learn().recorded = k.looked() }

func (k Known) looked() looked { return looked{k.State.Mod, k.Speed.Mod, k.run.folds} }

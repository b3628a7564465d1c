package record

import (
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Bounds of what is kept of measurements.
const (
	// MaxSpeedPoints bounds the worlds of which a job's or a kind's speed is kept.
	MaxSpeedPoints = 48
	// MaxStartPoints bounds the starts of which the cost is kept.
	MaxStartPoints = 16
	// MaxLosses bounds the windows of losses.
	MaxLosses = 9
	// MaxCurve bounds the sizes of which a speed is told.
	MaxCurve = 32
	// MaxTold bounds the predictions of one job that are kept, and MaxEnds those of a
	// kind's jobs of which it is kept how they came out.
	MaxTold = 8
	MaxEnds = 32
	// MaxLengths is of how many of a kind's jobs it is kept how much they took.
	MaxLengths = 20
	// MaxKinds is of how many kinds of jobs of one user the measurements are kept.
	MaxKinds = 50
)

// Speed is what was measured of one job, in all of its generations: what its
// decisions are made from, also by a leader that comes next, and what people are
// told. The leader writes it, once a minute at most and at the end of a generation.
type Speed struct {
	Generation cluster.Generation `json:"generation"` // the newest that it tells of
	At         time.Time          `json:"at"`         // when it was written
	// Step and Samples are how far the job was believed to be then; -1 = unknown.
	Step    int64 `json:"step"`
	Samples int64 `json:"samples"`
	// Points are its speeds, each of the worlds that are alike; Starts what its last starts have cost.
	Points []SpeedPoint `json:"points,omitempty"`
	Starts []StartPoint `json:"starts,omitempty"`
	// NoiseScale is its gradient noise scale in samples, and BaseSteps what its steps are
	// worth in steps at the smallest batch, as its ranks told; 0 = they did not.
	NoiseScale float64 `json:"noise_scale,omitempty"`
	BaseSteps  int64   `json:"base_steps,omitempty"`
	// Losses are means of the losses that it told, over windows of steps: the first, and the newest.
	Losses []LossWindow `json:"losses,omitempty"`
	// LossFlat is why these do not tell that more steps gain anything; empty = they do, or it is not known.
	LossFlat string `json:"loss_flat,omitempty"`
	// LeastNoise is the least NoiseScale that it has told. It grows while a job trains, so that
	// this is what the next job of its kind may begin with; 0 = it told none.
	LeastNoise float64 `json:"least_noise,omitempty"`
	// Curve is its speed at each of the sizes that it may have, by size; where the batch
	// ranges, in steps at the smallest that those at the best are worth.
	Curve []CurvePoint `json:"curve,omitempty"`
	// Prediction is when it will end; nil = its work is unknown.
	Prediction *Prediction `json:"prediction,omitempty"`
	// Told are predictions that were made earlier, over all of the job's time.
	Told []ToldEnd `json:"told,omitempty"`
	// UsefulS is for how many seconds it has done steps that count, and TrainedS for
	// how many it has had workers: their ratio is its goodput.
	UsefulS  float64 `json:"useful_s,omitempty"`
	TrainedS float64 `json:"trained_s,omitempty"`
	// UsefulBeforeS is what of UsefulS generations before this one have done.
	UsefulBeforeS float64 `json:"useful_before_s,omitempty"`
	// Kind is the kind of jobs that it was taken into at the job's end; empty = into none yet.
	Kind string `json:"kind,omitempty"`
	// Problem says in words what is wrong with what its ranks report; empty = nothing.
	Problem string `json:"problem,omitempty"`
	// Silent: it has run for long, and reported nothing.
	Silent bool `json:"silent,omitempty"`
}

// LossWindow is the mean of Told losses up to a step.
type LossWindow struct {
	Step int64   `json:"step"`
	Mean float64 `json:"mean"`
	Told int64   `json:"told"`
}

// SpeedPoint is the measured speed of worlds that are alike.
type SpeedPoint struct {
	Workers int    `json:"workers"`
	Nodes   int    `json:"nodes"`           // that they were on
	Model   string `json:"model,omitempty"` // of their devices; empty = unknown, or several
	Batch   int    `json:"batch"`           // samples of a global step
	// StepsPerSecond is the median of Windows measurements, and Low and High hold nine tenths of them.
	StepsPerSecond float64 `json:"steps_per_second"`
	Low            float64 `json:"low,omitempty"`
	High           float64 `json:"high,omitempty"`
	Windows        int     `json:"windows"`
	// Generation is the newest of them.
	Generation cluster.Generation `json:"generation"`
}

// StartPoint is what one start has cost.
type StartPoint struct {
	Generation cluster.Generation `json:"generation"`
	Workers    int                `json:"workers"`
	Seconds    float64            `json:"seconds"` // without training, from the halt before it, or its plan, to its first step
}

// CurvePoint is the speed at one size.
type CurvePoint struct {
	Workers        int     `json:"workers"`
	StepsPerSecond float64 `json:"steps_per_second"`
	Batch          int     `json:"batch,omitempty"`    // the best, where it is known; else 0
	Measured       bool    `json:"measured,omitempty"` // else predicted
}

// Prediction is when a job will end if it keeps its workers.
type Prediction struct {
	RemainingS float64   `json:"remaining_s"` // as of Speed.At
	End        time.Time `json:"end"`
	Low        time.Time `json:"end_low"` // with Low to High it ends in nine of ten cases
	High       time.Time `json:"end_high"`
}

// ToldEnd is a prediction that was made.
type ToldEnd struct {
	At         time.Time `json:"at"`
	RemainingS float64   `json:"remaining_s"`
}

// EndPoint is how a prediction came out, in seconds from when it was made.
type EndPoint struct {
	PredictedS float64 `json:"predicted_s"`
	ActualS    float64 `json:"actual_s"`
}

// Goodput is the share of the time with workers in which the job did steps that count; 0 = unknown.
func (s Speed) Goodput() float64 {
	if !(s.TrainedS > 0) || !(s.UsefulS > 0) {
		return 0
	}
	return min(1, s.UsefulS/s.TrainedS)
}

// JobKind is what jobs of one kind have shown, for the next of them to begin with.
type JobKind struct {
	At     time.Time     `json:"at"`
	Job    cluster.JobID `json:"job"`  // the last that was taken in
	Jobs   int           `json:"jobs"` // how many were
	Points []SpeedPoint  `json:"points,omitempty"`
	Starts []StartPoint  `json:"starts,omitempty"`
	Ends   []EndPoint    `json:"ends,omitempty"` // the newest last
	// Lengths are how much its jobs took that succeeded, the newest last.
	Lengths []Length `json:"lengths,omitempty"`
	// NoiseScale is LeastNoise of the last of its jobs that told one; 0 = none did.
	NoiseScale float64 `json:"noise_scale,omitempty"`
}

// Length is how much a job took from its submission to its end.
type Length struct {
	Steps int64   `json:"steps,omitempty"` // 0 = it has told none
	WorkS float64 `json:"work_s"`          // as seconds on one device
}

func (s Speed) cut(most int) any {
	s.Problem, s.LossFlat = Cut(s.Problem, most), Cut(s.LossFlat, SmallReason)
	s.Points, s.Starts = sound(s.Points, s.Starts)
	if s.BaseSteps = min(max(s.BaseSteps, 0), MaxCount); !SoundNoise(s.NoiseScale) {
		s.NoiseScale = 0
	}
	s.Losses = soundLosses(s.Losses)
	if !SoundNoise(s.LeastNoise) {
		s.LeastNoise = 0
	}
	s.Curve = slices.DeleteFunc(slices.Clone(s.Curve), func(p CurvePoint) bool { return p.Workers < 1 || !rate(p.StepsPerSecond) })
	s.Curve = s.Curve[:min(len(s.Curve), MaxCurve)]
	s.Told = slices.DeleteFunc(slices.Clone(s.Told), func(p ToldEnd) bool { return p.At.IsZero() || !within(p.RemainingS) })
	s.Told = s.Told[:min(len(s.Told), MaxTold)]
	return s
}

func (k JobKind) cut(int) any {
	k.Points, k.Starts = sound(k.Points, k.Starts)
	k.Ends = slices.DeleteFunc(slices.Clone(k.Ends), func(p EndPoint) bool { return !within(p.PredictedS) || !within(p.ActualS) })
	k.Ends = k.Ends[:min(len(k.Ends), MaxEnds)]
	k.Lengths = slices.DeleteFunc(slices.Clone(k.Lengths), func(l Length) bool { return l.Steps < 0 || !(l.WorkS > 0) || !within(l.WorkS) })
	k.Lengths = k.Lengths[:min(len(k.Lengths), MaxLengths)]
	if !SoundNoise(k.NoiseScale) {
		k.NoiseScale = 0
	}
	return k
}

// sound leaves out what cannot have been measured, and what is too much.
func sound(points []SpeedPoint, starts []StartPoint) ([]SpeedPoint, []StartPoint) {
	points = slices.DeleteFunc(slices.Clone(points), func(p SpeedPoint) bool {
		return p.Workers < 1 || p.Workers > cluster.MaxWorldSize || p.Nodes < 1 || p.Windows < 1 || p.Batch < 0 || !rate(p.StepsPerSecond)
	})
	points = points[:min(len(points), MaxSpeedPoints)]
	for i := range points {
		points[i].Model = Cut(points[i].Model, cluster.MaxModelBytes) // two models are never one
	}
	starts = slices.DeleteFunc(slices.Clone(starts), func(p StartPoint) bool {
		return p.Workers < 1 || p.Workers > cluster.MaxWorldSize || !(p.Seconds >= 0 && p.Seconds <= maxStartSeconds)
	})
	return points, starts[:min(len(starts), MaxStartPoints)]
}

// maxStartSeconds is more than any start takes that is worth taking for one.
const maxStartSeconds = 24 * 3600

// within reports whether a time can be that of a job, in seconds.
func within(s float64) bool { return s >= 0 && s <= 10*365*24*3600 }

// MaxLoss is more than any loss is that a training can learn from.
const MaxLoss = 1e9

// soundLosses leaves out what is no mean of losses, and what is too much.
func soundLosses(windows []LossWindow) []LossWindow {
	windows = slices.DeleteFunc(slices.Clone(windows), func(w LossWindow) bool {
		return w.Step < 0 || w.Step > MaxCount || w.Told < 1 || !(math.Abs(w.Mean) <= MaxLoss)
	})
	return windows[:min(len(windows), MaxLosses)]
}

// MaxRate is more steps in a second than any training does.
const MaxRate = 1e6

// SoundNoise reports whether a gradient noise scale, in samples, can be one.
func SoundNoise(n float64) bool { return n > 0 && n <= MaxCount }

func rate(r float64) bool { return r > 0 && r <= MaxRate && !math.IsNaN(r) }

func (k JobKind) check() error { return word("job", maxWord, k.Job) }

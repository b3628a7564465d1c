package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/goodput"
)

// Job is what is known of a job.
type Job struct {
	Sizes   []int
	Batch   int // samples of one of its steps; where its owner allows a range, the fewest
	PerNode int // devices of a node; 0 = unknown
	Range   Range

	// In is its present world; zero = it has none.
	In World

	Steps int64         // it takes in all, by its owner; 0 = not said
	ETA   time.Duration // it takes on one device, by its owner; 0 = not said
	Done  int64         // steps finished, as far as is known
	// Reported: it has told how far it is. Void: what it tells cannot be believed, so
	// that everything is as if it told nothing.
	Reported, Void bool
	// Overdue: it has had nothing left for so long that this cannot be.
	Overdue bool

	Trained time.Duration // it has had workers for, and
	Service time.Duration // that times their number

	Points []goodput.Point // measured of it
	Kind   []goodput.Point // measured of jobs of its kind
	Starts []Start         // what its own starts have cost, the newest last
	// KindStarts are those of its kind, and Fleet the median of all jobs; 0 = unknown.
	KindStarts []Start
	Fleet      time.Duration
	// KindTook is what jobs of its kind took that succeeded, and FleetTook what those of all kinds took.
	KindTook, FleetTook []Took
}

// Took is how much a job took in all.
type Took struct {
	Steps int64         // 0 = unknown
	Work  time.Duration // on one device
}

// Range is what a job needs to have another batch than the smallest.
type Range struct {
	Most  int     // the largest batch; no more than Job.Batch = its owner allows one only
	Micro int     // samples that a device takes at once; 0 = its whole share
	Noise float64 // gradient noise scale in samples; 0 = unknown, and the batch stays the smallest
}

// World is what a job's present world is like.
type World struct{ Workers, Nodes, Batch int }

// Start is what one start has cost, in time without training.
type Start struct {
	Workers int
	Took    time.Duration
}

// Forecast is what follows.
type Forecast struct {
	Work allocator.Work
	// Alike is what would be left by the jobs like it (allocator.JobView.Alike).
	Alike []time.Duration
	// StartCosts is what a start at each of Sizes costs.
	StartCosts []time.Duration
	// Staying is the speed in its present world, as Speeds count it, where that has
	// another batch than the best; else 0.
	Staying float64
	// Doubt says which of the numbers do not fit each other; empty = none.
	Doubt string

	Learned
}

// Learned is what follows from measurements alone, and stays until there are others.
type Learned struct {
	// Curve is the speed at each of Sizes in steps per second, and Speeds relative to
	// one worker; nil = nothing was measured. Where the batch ranges, both are with the
	// best batch of each size, in steps at the smallest that those are worth (goodput.Gain).
	Curve  []goodput.Estimate
	Speeds []float64
	// Batches are the best batch of each size; nil = the smallest that the size can share.
	Batches []int
	// Fastest is what the job does in samples (allocator.JobView.Fastest), but for Staying; nil where its batch does not range.
	Fastest *allocator.Fastest

	model   goodput.Model
	one     float64 // steps per second of one worker; 0 = unknown
	windows int     // of the job's own
	doubt   string
	unfit   bool // its kind's jobs are not like it
}

const (
	// unfit is by which factor a job's speed may differ from its kind's: with more, the code has changed.
	unfit = 1.5
	// sure is from how many windows that is certain.
	sure = 3
	// kindWindows is what a speed of its kind counts at most, in windows of the job's own.
	kindWindows = 4
	// etaWindows is what its owner's estimate counts against the measured speed, in windows.
	etaWindows = 2
	// farOff is by which factor an estimate may be off before it is named.
	farOff = 3
)

// Of forecasts. What is measured outweighs what is stated: see ADR 45.
func Of(j Job) Forecast { return Learn(j).Of(j) }

// Learn makes a model of the job's and its kind's measurements.
func Learn(j Job) Learned {
	if j.Void {
		j.Points = nil
	}
	var f Learned
	points := j.Points
	for _, p := range points {
		f.windows += p.Windows
	}
	if kind, fits := j.kindPoints(); fits {
		points = slices.Concat(points, kind)
	} else {
		f.doubt, f.unfit = "jobs of its kind had another speed, which is not used", true
	}
	if len(points) > 0 {
		f.model = goodput.Fit(points, j.step())
		f.one = f.model.Speed(1, 1).PerSecond
		if f.model.Known() {
			if f.Curve = f.model.Curve(j.Sizes, j.PerNode); j.ranges() {
				f.Curve, f.Batches = j.bestBatches(f.model, j.worth)
			}
			f.Fastest = j.fastest(f.model)
			for _, e := range f.Curve {
				f.Speeds = append(f.Speeds, e.PerSecond/f.one)
			}
		} else {
			f.one = 0
		}
	}
	return f
}

// Of forecasts by what was learnt of the same job.
func (l Learned) Of(j Job) Forecast {
	f := Forecast{Learned: l, Doubt: l.doubt}
	f.Fastest = l.stayingFastest(j)
	if j.Void {
		j.Reported, j.Done, j.Starts = false, 0, nil
	}
	f.work(j)
	if !f.Work.Known {
		f.Alike = f.alike(j)
	}
	f.StartCosts = j.startCosts()
	if i := slices.Index(j.Sizes, j.In.Workers); f.Batches != nil && i >= 0 && j.In.Batch > 0 && j.In.Batch != f.Batches[i] {
		best := j
		best.In.Batch = f.Batches[i]
		f.Staying = f.Speeds[i] * min(1, l.in(j).PerSecond/l.in(best).PerSecond)
	}
	return f
}

// Careful is Speeds as they are at least in 19 cases of 20; nil = nothing was measured.
func (l Learned) Careful() []float64 {
	var out []float64
	for i, e := range l.Curve {
		v := l.Speeds[i]
		if e.PerSecond > 0 && e.Low > 0 && e.Low < e.PerSecond {
			v *= e.Low / e.PerSecond
		}
		out = append(out, v)
	}
	return out
}

// Speed is the speed in the job's present world, in steps per second, or where the batch
// ranges in steps at the smallest that they are worth; false if nothing was measured.
func (l Learned) Speed(j Job) (goodput.Estimate, bool) { return l.in(j), l.one > 0 }

// One is the speed of one worker in steps per second, or where the batch ranges in steps at
// the smallest that they are worth; 0 if nothing was measured.
func (l Learned) One() float64 { return l.one }

// SpanLoss is the share of its speed that a job of k workers loses on several nodes, of
// that on one; false unless both were measured.
func (l Learned) SpanLoss(k int) (float64, bool) {
	one, several := l.model.Speed(k, 1), l.model.Speed(k, 2)
	if !one.Measured || !several.Measured || one.PerSecond <= 0 {
		return 0, false
	}
	return max(0, 1-several.PerSecond/one.PerSecond), true
}

// Relative is a speed as Speeds count it; 0 if nothing was measured.
func (l Learned) Relative(e goodput.Estimate) float64 {
	if l.one <= 0 {
		return 0
	}
	return e.PerSecond / l.one
}

// kindPoints are what jobs of its kind have shown, on the job's own level; false if
// that does not fit what was measured of the job.
func (j Job) kindPoints() (points []goodput.Point, fits bool) {
	kind := goodput.Fit(j.Kind, j.step())
	if !kind.Known() {
		return nil, true
	}
	own, windows := []float64{}, 0
	for _, p := range j.Points {
		if p.Workers > 0 && p.PerSecond > 0 {
			of := kind
			if p.Batch > 0 && p.Batch != j.Batch {
				of = kind.At(p.Batch)
			}
			own = append(own, math.Log(p.PerSecond/of.Speed(p.Workers, p.Nodes).PerSecond))
			windows += p.Windows
		}
	}
	level := 0.0
	if len(own) > 0 {
		slices.Sort(own)
		level = (own[(len(own)-1)/2] + own[len(own)/2]) / 2
		worst := max(math.Abs(own[0]), math.Abs(own[len(own)-1]))
		if windows >= sure && worst > math.Log(unfit) {
			return nil, false
		}
	}
	for _, p := range j.Kind {
		p.Windows = min(p.Windows, kindWindows)
		for _, v := range []*float64{&p.PerSecond, &p.Low, &p.High} {
			*v *= math.Exp(level)
		}
		points = append(points, p)
	}
	return points, true
}

// work is what is left, as time on one device, by the first of these that can be said:
//
//  1. The steps that are left, by the measured speed. While little was measured, its
//     owner's estimate of the whole counts as well.
//  2. The steps that are left, by its owner's estimate of the whole.
//  3. Of a job that reports nothing: its owner's estimate, or all its steps by the speed
//     of its kind, less the work of its device time so far.
//  4. Nothing is known. Also where 3 has come to nothing and the job goes on.
func (f *Forecast) work(j Job) {
	total := j.ETA.Seconds()
	if j.Steps > 0 && f.one > 0 {
		by := float64(j.Steps) / f.one
		if total > 0 && f.windows >= sure && math.Abs(math.Log(by/total)) > math.Log(farOff) {
			f.doubt(fmt.Sprintf("--eta %s is far off: by its speed it takes %s on one device", short(j.ETA), short(duration(by))))
		}
		own := float64(f.windows) / float64(f.windows+etaWindows)
		if total <= 0 {
			own = 1
		}
		total = own*by + (1-own)*total
	}
	if j.Reported && j.Steps > 0 {
		left := 1 - min(1, float64(max(0, j.Done))/float64(j.Steps))
		switch {
		case j.Overdue:
			f.doubt(fmt.Sprintf("it goes on after its %d steps", j.Steps))
		case left == 0:
			f.Work = allocator.Left(0)
		case total > 0:
			f.Work = allocator.Left(duration(left * total))
		}
		return
	}
	if total <= 0 {
		return
	}
	if left := total - f.attained(j); left > 0 {
		f.Work = allocator.Left(duration(left))
	} else {
		f.doubt(fmt.Sprintf("it has outlived the %s on one device that it was to take", short(duration(total))))
	}
}

func (f *Forecast) doubt(text string) {
	if f.Doubt != "" {
		f.Doubt += "; "
	}
	f.Doubt += text
}

// attained is the work that a job is taken to have done by its time with workers, in seconds of one device.
func (f *Forecast) attained(j Job) float64 {
	if j.Trained <= 0 {
		return 0
	}
	k := max(1, int(math.Round(float64(j.Service)/float64(j.Trained))))
	speed := goodput.Default(k)
	if f.one > 0 {
		speed = f.model.Speed(k, goodput.NodesFor(k, j.PerNode)).PerSecond / f.one
		if i := slices.Index(j.Sizes, k); f.Batches != nil && i >= 0 {
			speed = f.Speeds[i]
		}
	}
	return j.Trained.Seconds() * speed
}

// longest bounds durations that are made of reports.
const longest = 10 * 365 * 24 * time.Hour

func duration(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 1 // something is left
	}
	return time.Duration(math.Min(seconds, longest.Seconds()) * float64(time.Second))
}

// short is a duration as people read it.
func short(d time.Duration) string {
	if d >= 10*time.Minute {
		return d.Round(time.Minute).String()
	}
	return d.Round(time.Second).String()
}

package goodput

import (
	"cmp"
	"math"
	"slices"
)

// Point is what was measured of worlds that are alike.
type Point struct {
	Workers   int
	Nodes     int     // that they were on
	Batch     int     // samples of a step; 0 = unknown
	PerSecond float64 // steps
	Low, High float64 // nine tenths of the windows; 0 = unknown
	Windows   int     // how much was measured
}

// Prior is how the speed grows with k workers before anything is measured: Default, k^0.678.
//
// spread is how far the truth lies from it, as a standard deviation of the log of the
// speed for each doubling of the size: the profiles of Pollux and ElasticFlow lie within about twice that.
const spread = 0.2

// Model is the speed of one job, in steps per second. Its zero value has no level:
// nothing was measured, and Speed tells Default, relative to one worker.
//
// A step takes, after Saxena et al. (MASCOTS 2020, section III-B), with the batch
// accumulated in s parts,
//
//	t(b, k, m) = s·t_proc(m) + t_comm(p, k)
//
// where k·m·s = b. t_proc is taken to be affine in the samples of a device, and
// t_comm to be that of a ring, (k−1)/k of a constant that is another one across nodes
// than within one, as the weights p of a job stay. So with the batch of the job
//
//	t(k) = a + w·b/k + c(span)·(k−1)/k ,   a, w, c ≥ 0
//
// and with another one (At) a counts as often as more parts are accumulated.
//
// The constants are fitted to what was measured, relative errors squared, and to the
// prior at all sizes, with a weight that a few measurements outvote. What was
// measured at a size then draws the curve there to itself, and around it the less the
// further the size is: it is believed more than any formula.
type Model struct {
	step   Step       // whose speed it tells
	ref    Step       // to whose batch the constants are
	points []measured // one for each number of workers, span and batch, ascending
	fit    [4]float64 // a, w, c within a node, c across nodes; in seconds of a step of the reference batch
	fitted bool
	level  float64 // steps per second of one worker by the prior, where there is no fit
}

// Step is what one step takes.
type Step struct {
	Batch int // samples, over all workers
	Micro int // of them, what a device takes at once at most; 0 = its whole share
}

// parts is in how many a device takes its share of a batch.
func (s Step) parts(batch, k int) float64 {
	if s.Micro < 1 {
		return 1
	}
	share := (batch + k - 1) / k
	return float64(max(1, (share+s.Micro-1)/s.Micro))
}

type measured struct {
	workers int
	across  bool
	batch   int
	rate    float64 // of steps, per second
	log     float64 // standard deviation of its log
	weight  float64
}

// priorWeight is what the prior at one size counts, in windows.
const priorWeight = 0.5

// Fit makes a model of what was measured of one device model, for a job of such
// steps. Points that cannot be are left out; those of an unknown batch are taken to be of its own.
func Fit(points []Point, of Step) Model {
	m := Model{step: of, ref: of}
	for _, p := range points {
		if p.Workers < 1 || p.Windows < 1 || !(p.PerSecond > 0) || p.PerSecond > impossible {
			continue
		}
		x := measured{workers: p.Workers, across: p.Nodes > 1, batch: of.Batch, rate: p.PerSecond, weight: float64(min(p.Windows, windows))}
		if p.Batch > 0 && of.Batch > 0 {
			x.batch = p.Batch
		}
		s := 0.1 // of few windows
		if p.Low > 0 && p.High >= p.Low && p.Windows >= known {
			s = min(0.5, math.Log(p.High/p.Low)/3.29)
		}
		x.log = math.Hypot(s/math.Sqrt(x.weight), floor)
		m.points = append(m.points, x)
	}
	slices.SortStableFunc(m.points, func(a, b measured) int {
		return cmp.Or(a.workers-b.workers, boolean(a.across)-boolean(b.across), a.batch-b.batch)
	})
	m.merge()
	if len(m.points) == 0 {
		return Model{step: of, ref: of}
	}
	sum, weights := 0.0, 0.0
	for _, p := range m.points {
		sum += p.weight * math.Log(p.rate*m.ratio(p.batch)/Default(p.workers))
		weights += p.weight
	}
	m.level = math.Exp(sum / weights)
	m.fitted = m.points[0].workers != m.points[len(m.points)-1].workers
	if m.fitted || m.batches() {
		m.fit = m.solved()
	}
	return m
}

// At is the model of the same job's steps with another batch.
//
// Where one batch alone was measured, a cannot be told from as much of w and c
// together. Then all of it counts as those: what does not shrink with more workers is
// taken for communication, which one worker has none of.
func (m Model) At(batch int) Model {
	m.step.Batch = batch
	if len(m.points) == 0 {
		return m
	}
	if m.fit == [4]float64{} {
		m.fit = m.solved() // by which a step of another batch differs
	}
	if !m.batches() {
		a := m.fit[0]
		m.fit = [4]float64{0, m.fit[1] + a, m.fit[2] + a, m.fit[3] + a}
	}
	return m
}

// batches reports whether more than one batch was measured.
func (m Model) batches() bool {
	return slices.ContainsFunc(m.points, func(p measured) bool { return p.batch != m.points[0].batch })
}

// ratio is how many times the samples of the reference a batch has.
func (m Model) ratio(batch int) float64 {
	if batch == m.ref.Batch || m.ref.Batch < 1 {
		return 1
	}
	return float64(batch) / float64(m.ref.Batch)
}

// floor is how far the speed of two generations of the same world differs, as a standard deviation of its log.
const floor = 0.02

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// merge makes one of what was measured of the same worlds.
func (m *Model) merge() {
	var out []measured
	for _, p := range m.points {
		last := len(out) - 1
		if last < 0 || out[last].workers != p.workers || out[last].across != p.across || out[last].batch != p.batch {
			out = append(out, p)
			continue
		}
		o := &out[last]
		share := p.weight / (p.weight + o.weight)
		o.rate = math.Exp((1-share)*math.Log(o.rate) + share*math.Log(p.rate))
		o.log = min(o.log, p.log)
		o.weight += p.weight
	}
	m.points = out
}

// features are what the constants are multiplied by in the time of a step.
func (m Model) features(k int, across bool, batch int) [4]float64 {
	share := 1 / float64(k)
	f := [4]float64{1, share, 1 - share, 0}
	if batch != m.ref.Batch {
		f[0] = m.ref.parts(batch, k) / m.ref.parts(m.ref.Batch, k)
		f[1] = share * m.ratio(batch)
	}
	if across {
		f[2], f[3] = 0, 1-share
	}
	return f
}

// solved are the constants that fit: non-negative least squares by coordinate descent, which
// for four constants needs no library and has one answer on every machine.
func (m *Model) solved() [4]float64 {
	var e equations
	most := 1
	for _, p := range m.points {
		e.add(m.features(p.workers, p.across, p.batch), 1/p.rate, p.weight)
		most = max(most, p.workers)
	}
	for k := 1; k <= 2*most; k *= 2 {
		for _, across := range []bool{false, true} {
			e.add(m.features(k, across, m.ref.Batch), 1/(m.level*Default(k)), priorWeight)
		}
	}
	return e.solve([4]float64{0, 1 / m.level, 0, 0})
}

// equations are the normal equations of the fit: what every measurement adds to the
// weighted products of features, and to those of each with the relative time, 1.
type equations struct {
	of [4][4]float64
	to [4]float64
}

// add takes in that a step of these features takes this time.
func (e *equations) add(f [4]float64, time, weight float64) {
	for i := range f {
		f[i] /= time
	}
	for i := range f {
		e.to[i] += float64(weight * f[i])
		for j := range f {
			e.of[i][j] += float64(float64(weight*f[i]) * f[j])
		}
	}
}

// solve goes from x to where no constant alone improves the fit.
func (e *equations) solve(x [4]float64) [4]float64 {
	const rounds = 300
	for range rounds {
		before := x
		for i := range x {
			rest := e.to[i]
			for j := range x {
				if j != i {
					rest -= float64(e.of[i][j] * x[j])
				}
			}
			if e.of[i][i] > 0 {
				x[i] = max(0, rest/e.of[i][i])
			}
		}
		if x == before {
			break
		}
	}
	return x
}

// formula is the speed by the fit, or by the prior through the level; with another
// batch than the reference, as much slower as a step takes longer by the fit.
func (m Model) formula(k int, across bool, batch int) float64 {
	speed, t := m.level*Default(k), m.time(k, across, m.ref.Batch)
	if m.fitted && t > 0 {
		speed = 1 / t
	}
	if batch != m.ref.Batch {
		if other := m.time(k, across, batch); t > 0 && other > 0 {
			return speed * t / other
		}
		return speed / m.ratio(batch)
	}
	return speed
}

// time is how long a step takes by the fit, in seconds; 0 where there is none.
func (m Model) time(k int, across bool, batch int) (t float64) {
	f := m.features(k, across, batch)
	for i := range f {
		t += float64(f[i] * m.fit[i])
	}
	return t
}

// Known reports whether anything was measured.
func (m Model) Known() bool { return len(m.points) > 0 }

// Estimate is the speed at one size.
type Estimate struct {
	PerSecond float64 // steps; relative to one worker where nothing was measured
	Low, High float64 // with nine in ten chances it lies within
	Measured  bool
}

// Speed estimates the speed of k workers on so many nodes; zero for k ≤ 0.
func (m Model) Speed(k, nodes int) Estimate {
	if k <= 0 {
		return Estimate{}
	}
	if len(m.points) == 0 {
		return around(Default(k), spread*math.Log2(float64(max(k, 2))), false)
	}
	across := nodes > 1
	// What was measured differs from the formula by a factor, which fades over two doublings.
	const fade = 2.0
	sum, weights, nearest, sigma, seen := 0.0, 0.0, math.Inf(1), 0.0, false
	for _, p := range m.points {
		far := math.Abs(math.Log2(float64(k) / float64(p.workers)))
		if p.across != across {
			far += 0.5 // the same size in another span tells less
		}
		if p.batch != m.step.Batch {
			far += 0.5 * math.Abs(math.Log2(float64(p.batch)/float64(m.step.Batch)))
		}
		if far < nearest {
			nearest, sigma = far, p.log
		}
		seen = seen || far == 0
		w := p.weight * math.Exp(-8*far)
		sum += float64(w * math.Log(p.rate/m.formula(p.workers, p.across, p.batch)))
		weights += w
	}
	factor := math.Exp(sum / weights * max(0, 1-nearest/fade))
	return around(m.formula(k, across, m.step.Batch)*factor, math.Hypot(sigma, spread*nearest/math.Sqrt(float64(len(m.points)))), seen)
}

// around is an estimate with a log-normal error.
func around(speed, sigma float64, seen bool) Estimate {
	const nine = 1.645
	return Estimate{PerSecond: speed, Low: speed * math.Exp(-nine*sigma), High: speed * math.Exp(nine*sigma), Measured: seen}
}

// Curve returns the estimates at the sizes, which ascend, for worlds on nodes of
// perNode devices each (0 = unknown: one node holds any).
//
// Measurements may fall with the size: more workers may be slower. A larger size is
// then told to be as fast as the fastest smaller one, and no faster, so that no policy
// gives a device for nothing, and none that looks at the next size only takes one away
// that is needed.
func (m Model) Curve(sizes []int, perNode int) []Estimate {
	out := make([]Estimate, len(sizes))
	for i, k := range sizes {
		out[i] = m.Speed(k, NodesFor(k, perNode))
		if i > 0 && out[i].PerSecond < out[i-1].PerSecond {
			seen := out[i].Measured
			out[i] = out[i-1]
			out[i].Measured = seen
		}
	}
	return out
}

// NodesFor is how many nodes of perNode devices k workers take; 1 where that is unknown.
func NodesFor(k, perNode int) int {
	if perNode < 1 {
		return 1
	}
	return (k + perNode - 1) / perNode
}

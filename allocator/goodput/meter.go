package goodput

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Sample is one report of how far a generation had come.
type Sample struct {
	Node    string    // whose ranks and whose clock
	At      time.Time // when Step was finished, by that clock
	Seen    time.Time // when the report arrived, by the reader's clock
	Step    int64
	Samples int64 // taken by then; -1 or 0 = unknown
}

const (
	// windows is how many of the newest windows a speed is the median of.
	windows = 32
	// window is the least time between two reports that makes a rate: shorter ones are mostly rounding.
	window = 4 * time.Second
	// warmup is how long after the first step of a generation nothing is measured: caches,
	// autotuning and the first batches are slower than what follows.
	warmup = 8 * time.Second
	// skew is how far two clocks may differ over one window: reports are delayed by as much.
	skew = 20 * time.Second
	// reporters is of how many nodes the windows are kept: those that report first. Ranks
	// wait for each other at each step, so that any node shows the job's speed.
	reporters = 8
	// impossible is more steps in a second than any training does.
	impossible = 1e6
	// leap is how many times the usual speed a window must show to be no progress but a
	// jump, where the usual speed is known from so many windows.
	leap, known = 8, 3
	// apart is how many times faster than another a node of one world must be for them to disagree.
	apart = 2
	// batchChange is how far the samples of a step may differ before they are another batch.
	batchChange = 0.1
)

// Meter makes speeds of the reports of one generation. The zero value is ready, and
// knows nothing of what was before.
//
// The speed is the median of the rates of windows, each between two reports of one
// node by that node's own clock. A median because what disturbs it is one-sided and
// rare: evaluations and saves make a few windows slow and never one faster; means,
// and the ratio of first and last report, follow each of them. It stands up to
// disturbances in just under half of the windows: see ADR 44. What a window must not tell is
// left out before: the warm-up, clocks that jump, steps that go backwards or leap.
type Meter struct {
	tracks  []*track // by node, in the order of their first reports
	step    int64
	samples int64
	begun   bool
	fault   Fault
	before  Before
}

// Before is what is known when a generation begins.
type Before struct {
	Step  int64     // that it goes on after
	At    time.Time // when it was planned, by the clock of Sample.Seen
	Usual float64   // the most steps a second of the job's other generations; 0 = unknown
}

// After is a Meter of a generation that goes on after another.
func After(b Before) Meter { return Meter{before: b} }

// Fault is what is wrong with reports.
type Fault struct {
	Text string
	// Void: what the job reports cannot be believed at all.
	Void bool
}

// track is what one node has reported.
type track struct {
	node   string
	first  time.Time // when its first report came
	last   Sample
	rates  []float64 // of the newest windows, in order
	steps  float64   // of all windows, pauses included
	during float64   // seconds
	batch  float64   // samples of a step; 0 = unknown
	shown  Rate      // what they show; zero = nothing yet
}

// Fold takes a report in. Reports of one node come in the order in which it wrote them.
func (m *Meter) Fold(s Sample) {
	i := slices.IndexFunc(m.tracks, func(t *track) bool { return t.node == s.Node })
	if i < 0 {
		if b := m.before; b.Usual > 0 && !m.begun && float64(s.Step-b.Step) > leap*b.Usual*(s.Seen.Sub(b.At)+skew).Seconds() {
			m.blame(fmt.Sprintf("%s first reports step %d, %d after the one that it went on from", s.Node, s.Step, s.Step-b.Step))
		}
		if len(m.tracks) < reporters {
			m.tracks = append(m.tracks, &track{node: s.Node, first: s.At, last: s})
		}
		if s.Step >= 0 && !m.begun {
			m.begun, m.step, m.samples = true, s.Step, s.Samples
		}
		return
	}
	t := m.tracks[i]
	before := t.last
	if s.Step <= before.Step && !s.At.After(before.At) {
		return // said before, or overtaken
	}
	took := s.At.Sub(before.At)
	done := s.Step - before.Step
	set := took <= 0 || (took-s.Seen.Sub(before.Seen)).Abs() > skew // the clock was
	switch {
	case done < 0:
		m.blame(fmt.Sprintf("%s reports step %d after step %d", s.Node, s.Step, before.Step))
	case set && m.leaps(float64(done), s.Seen.Sub(before.Seen)+skew), !set && m.leaps(float64(done), max(took, window)):
		m.blame(fmt.Sprintf("%s reports %d steps in %s", s.Node, done, s.Seen.Sub(before.Seen).Round(time.Second)))
	case set: // no window
	case took < window:
		return // the window goes on
	default:
		m.advance(s)
		t.take(s, float64(done), took)
	}
	t.last = s
}

// blame notes that what is reported cannot be.
func (m *Meter) blame(text string) { m.fault = Fault{Text: text, Void: true} }

// leaps reports whether so many steps cannot have been done in the time.
func (m *Meter) leaps(done float64, took time.Duration) bool {
	rate := done / took.Seconds()
	usual, ok := m.Rate()
	return rate > impossible || ok && usual.Windows >= known && rate > leap*usual.PerSecond
}

func (m *Meter) advance(s Sample) {
	m.step = max(m.step, s.Step)
	if s.Samples > 0 {
		m.samples = max(m.samples, s.Samples)
	}
}

// take adds a window.
func (t *track) take(s Sample, done float64, took time.Duration) {
	if t.last.At.Sub(t.first) < warmup && s.At.Sub(t.first) < warmup+window {
		return
	}
	if batch := float64(s.Samples-t.last.Samples) / done; t.last.Samples > 0 && s.Samples > t.last.Samples && done > 0 {
		if t.batch > 0 && math.Abs(batch/t.batch-1) > batchChange {
			t.rates, t.steps, t.during = nil, 0, 0 // other steps than before
		}
		t.batch = batch
	}
	t.rates = append(t.rates, done/took.Seconds())
	if len(t.rates) > windows {
		t.rates = slices.Delete(t.rates, 0, 1)
	}
	t.steps, t.during = t.steps+done, t.during+took.Seconds()
	t.shown = t.rate()
}

// Rate is a measured speed, in steps per second.
type Rate struct {
	PerSecond float64 // the median of the windows
	Low, High float64 // nine tenths of the windows lie within
	Pace      float64 // with all pauses, such as evaluations; never above PerSecond
	Windows   int
}

// Rate returns the generation's speed; false if no window has shown one yet. Where
// nodes of one world differ, the slowest is the job's speed: the others wait for it.
func (m *Meter) Rate() (r Rate, ok bool) {
	for _, t := range m.tracks {
		if t.shown.Windows > 0 && (!ok || t.shown.PerSecond < r.PerSecond) {
			r, ok = t.shown, true
		}
	}
	return r, ok
}

// rate is what the windows show; zero if no step was done in any.
func (t *track) rate() Rate {
	moving := slices.DeleteFunc(slices.Clone(t.rates), func(r float64) bool { return r <= 0 })
	n := len(moving)
	if n == 0 {
		return Rate{}
	}
	slices.Sort(moving)
	r := Rate{PerSecond: (moving[(n-1)/2] + moving[n/2]) / 2, Low: moving[n/20], High: moving[n-1-n/20], Windows: n}
	r.Pace = min(r.PerSecond, t.steps/t.during)
	return r
}

// Step returns how far the generation is believed to be, and its samples; false if nothing was reported.
// Steps that leapt or went back do not count.
func (m *Meter) Step() (step, samples int64, ok bool) { return m.step, m.samples, m.begun }

// Fault says what is wrong with the reports; zero = nothing. One that was wrong once stays so.
func (m *Meter) Fault() Fault {
	if m.fault.Text != "" {
		return m.fault
	}
	type of struct {
		node string
		rate float64
	}
	var rates []of
	for _, t := range m.tracks {
		if t.shown.Windows >= known {
			rates = append(rates, of{t.node, t.shown.PerSecond})
		}
	}
	if len(rates) < 2 {
		return Fault{}
	}
	byRate := func(a, b of) int { return cmp.Compare(a.rate, b.rate) }
	slow, fast := slices.MinFunc(rates, byRate), slices.MaxFunc(rates, byRate)
	if fast.rate <= apart*slow.rate {
		return Fault{}
	}
	return Fault{Text: fmt.Sprintf("ranks disagree: %.3g steps/s on %s, %.3g on %s; the slowest counts", slow.rate, slow.node, fast.rate, fast.node)}
}

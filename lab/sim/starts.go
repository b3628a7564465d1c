package sim

import (
	"math"
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/allocator/lookahead"
	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// Foretold is what a look-ahead said of a job's start when the job had come and could not
// start at once, and when it did start. Times are of the run; 0 = not within the look-ahead.
type Foretold struct {
	At            time.Duration // when it was foretold
	Start         time.Duration // in the median of the futures
	Low, High     time.Duration
	Began         time.Duration // what came true
	Took          time.Duration // processor time, if there was a Stopwatch
	Jobs, Workers int           // jobs that were running or waiting; workers that were foretold
	BeganOn       int
	Until         time.Duration // how far was looked
}

// foretell looks ahead for the jobs that have come at this moment and wait, as an agent
// does who knows the records and no more.
func (w *world) foretell() {
	came := w.came
	w.came = nil
	if !w.cfg.Foretell {
		return
	}
	var waits []*job
	for _, j := range came {
		if j.gen == nil && !j.phase.Terminal() {
			waits = append(waits, j)
		}
	}
	if len(waits) == 0 {
		return
	}
	kvs, revision := w.store.Range(record.Root)
	mirror, err := record.NewMirror(kvs, revision)
	if err != nil {
		panic("sim: " + err.Error())
	}
	var before time.Duration
	if w.cfg.Stopwatch != nil {
		before = w.cfg.Stopwatch()
	}
	q := coordinator.LookAhead(w.leaderConfig(), mirror, zero.Add(w.now))
	starts, err := lookahead.Look(q, lookahead.Config{Policy: w.cfg.Policy})
	if err != nil {
		w.err = err
		return
	}
	for _, s := range starts {
		j := w.byID[s.Job]
		for _, x := range waits {
			if x == j {
				j.foretold = w.foretold(q.Input, s)
				if w.cfg.Stopwatch != nil {
					j.foretold.Took = w.cfg.Stopwatch() - before
				}
			}
		}
	}
}

func (w *world) foretold(in allocator.Input, s lookahead.Start) *Foretold {
	at := func(t time.Time) time.Duration {
		if t.IsZero() {
			return 0
		}
		return t.Sub(zero)
	}
	return &Foretold{At: w.now, Start: at(s.At), Low: at(s.Low), High: at(s.High), Until: at(s.Until), Jobs: len(in.Jobs), Workers: s.Workers}
}

// Starts says how good predicted starts were, of jobs that waited. Its numbers are null where none were predicted.
type Starts struct {
	// StartsTold is how many starts were predicted, when their jobs had come and had to wait.
	StartsTold int `json:"starts_told"`
	// StartsCovered is the share of those that came within the interval of nine in ten, and
	// StartError the median of their errors, each relative to how long the job waited.
	StartsCovered *float64 `json:"starts_covered"`
	StartError    *float64 `json:"start_error"`
	// StartsUncertain is how many of them had a range of more than a minute, and
	// StartsUncertainCovered the share of these that came within it: others are known almost to the second.
	StartsUncertain        int      `json:"starts_uncertain"`
	StartsUncertainCovered *float64 `json:"starts_uncertain_covered"`
	// LookAheadMS is the median and the longest real time of a look-ahead.
	LookAheadMS    float64 `json:"look_ahead_ms"`
	LookAheadMSMax float64 `json:"look_ahead_ms_max"`
}

func startsOf(jobs []Outcome) (out Starts) {
	covered, uncertain := 0, 0
	var off, took []float64
	for _, o := range jobs {
		f := o.Foretold
		if f == nil || f.Began == 0 {
			continue
		}
		out.StartsTold++
		within, wide := f.Low <= f.Began && (f.High == 0 || f.Began <= f.High), f.High == 0 || f.High-f.Low > time.Minute
		if within {
			covered++
		}
		if wide {
			out.StartsUncertain++
		}
		if wide && within {
			uncertain++
		}
		told := f.Start
		if told == 0 {
			told = f.Until
		}
		off = append(off, math.Abs(float64(told-f.Began))/float64(f.Began-f.At))
		took = append(took, float64(f.Took)/float64(time.Millisecond))
	}
	if out.StartsTold == 0 {
		return out
	}
	share, median := float64(covered)/float64(out.StartsTold), Quantile(off, 0.5)
	out.StartsCovered, out.StartError = &share, &median
	if out.StartsUncertain > 0 {
		part := float64(uncertain) / float64(out.StartsUncertain)
		out.StartsUncertainCovered = &part
	}
	out.LookAheadMS, out.LookAheadMSMax = Quantile(took, 0.5), Quantile(took, 1)
	return out
}

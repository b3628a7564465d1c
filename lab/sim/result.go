package sim

import (
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// Result is what came of a run.
type Result struct {
	Jobs      []Outcome // in the order of Config.Jobs
	LogSHA256 string
	// What the run took: calls of Step, transactions, questions, answers that
	// allocator.Run refused.
	Steps, Txns, Decisions, Rejected int
	DecisionTimes                    []time.Duration // in real time, if there was a Stopwatch
	// Migrations is how often a job went to other devices at the size that it had.
	Migrations int
	Placed     Placed // as allocator/place has placed all worlds
	BestFit    Placed // as best fit without aligned blocks would have placed the same worlds
}

// Outcome is what became of one job.
type Outcome struct {
	ID       string
	Phase    cluster.Phase
	Submit   time.Duration
	End      time.Duration
	Queueing time.Duration // all the time it had no devices
	Rescales int           // how often it went from one world to another
	Deadline time.Duration // 0 = none
	Work     time.Duration // done, on one device
	Held     time.Duration // device time
	Told     []Told        // the ends that were predicted, in order; none with KnowAll
	Foretold *Foretold     // its start, if that was predicted
}

// finish sums up.
func (w *world) finish() Result {
	r := w.result
	r.Placed, r.BestFit = w.spread.real.placed(), w.spread.plain.placed()
	for _, j := range w.jobs {
		o := Outcome{
			ID: j.ID, Phase: j.phase, Submit: j.Submit, End: j.ended, Queueing: j.waited, Rescales: j.resumed,
			Work: time.Duration(j.done * float64(time.Second)), Held: time.Duration(j.held * float64(time.Second)),
			Told: j.told, Foretold: j.foretold,
		}
		if !j.BestEffort {
			o.Deadline = j.Deadline
		}
		r.Jobs = append(r.Jobs, o)
	}
	r.LogSHA256 = w.log.sha256()
	return r
}

// Summary is a run in numbers; its fields are those that bellows simulate writes.
type Summary struct {
	Jobs              int     `json:"jobs"`
	Finished          int     `json:"finished"`
	Dropped           int     `json:"dropped"` // refused or failed or stopped
	MeanCompletionS   float64 `json:"mean_completion_s"`
	MedianCompletionS float64 `json:"median_completion_s"`
	P95CompletionS    float64 `json:"p95_completion_s"`
	MeanQueueingS     float64 `json:"mean_queueing_s"`
	P95QueueingS      float64 `json:"p95_queueing_s"`
	LongestQueueingS  float64 `json:"longest_queueing_s"`
	MakespanS         float64 `json:"makespan_s"`
	RescalesPerJob    float64 `json:"rescales_per_job"`
	// DeadlineSatisfied is the share, of the jobs that have a deadline, of those that finished by it; null if none has one.
	DeadlineSatisfied *float64 `json:"deadline_satisfied"`
	// ScalingEfficiency is the work done for each device second held: 1 = as on one device.
	ScalingEfficiency float64 `json:"scaling_efficiency"`
	Cost              float64 `json:"cost"` // device hours held
	MigrationsPerHour float64 `json:"migrations_per_hour"`
	Placement         Placed  `json:"placement"`
	BestFit           Placed  `json:"best_fit"`
	Ends
	Starts
}

// Summary reduces the outcomes. Times are of the jobs that finished; queueing is of all.
func (r Result) Summary() Summary {
	s := Summary{Jobs: len(r.Jobs)}
	var completion, queueing []float64
	var work, held float64
	rescales, due, met := 0, 0, 0
	first, last := r.Jobs[0].Submit, r.Jobs[0].Submit
	for _, o := range r.Jobs {
		queueing = append(queueing, o.Queueing.Seconds())
		rescales += o.Rescales
		work += o.Work.Seconds()
		held += o.Held.Seconds()
		done := o.Phase == cluster.Succeeded
		if done || o.Held > 0 { // a job that was dropped without having run adds nothing
			last = max(last, o.End)
		}
		if done {
			completion = append(completion, (o.End - o.Submit).Seconds())
		}
		if o.Deadline > 0 {
			due++
			if done && o.End <= o.Deadline {
				met++
			}
		}
	}
	s.Finished = len(completion)
	s.Dropped = s.Jobs - s.Finished
	s.MeanCompletionS, s.MedianCompletionS, s.P95CompletionS = mean(completion), Quantile(completion, 0.5), Quantile(completion, 0.95)
	s.MeanQueueingS, s.P95QueueingS = mean(queueing), Quantile(queueing, 0.95)
	s.LongestQueueingS = Quantile(queueing, 1)
	s.MakespanS = (last - first).Seconds()
	s.RescalesPerJob = float64(rescales) / float64(s.Jobs)
	if due > 0 {
		share := float64(met) / float64(due)
		s.DeadlineSatisfied = &share
	}
	if held > 0 {
		s.ScalingEfficiency = work / held
	}
	s.Cost = held / 3600
	s.Placement, s.BestFit = r.Placed, r.BestFit
	if s.MakespanS > 0 {
		s.MigrationsPerHour = float64(r.Migrations) / (s.MakespanS / 3600)
	}
	s.Ends = endsOf(r.Jobs)
	s.Starts = startsOf(r.Jobs)
	return s
}

// FinishedBy counts the jobs that had finished at a time.
func (r Result) FinishedBy(t time.Duration) int {
	n := 0
	for _, o := range r.Jobs {
		if o.Phase == cluster.Succeeded && o.End <= t {
			n++
		}
	}
	return n
}

// NthEnd is when the nth job finished, counting from 1; false if fewer did.
func (r Result) NthEnd(n int) (time.Duration, bool) {
	var ends []time.Duration
	for _, o := range r.Jobs {
		if o.Phase == cluster.Succeeded {
			ends = append(ends, o.End)
		}
	}
	slices.Sort(ends)
	if n < 1 || n > len(ends) {
		return 0, false
	}
	return ends[n-1], true
}

func mean(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// Quantile returns the smallest value that at least the share q of all do not exceed; 0 of none.
func Quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, max(0, int(math.Ceil(q*float64(len(s))))-1))]
}

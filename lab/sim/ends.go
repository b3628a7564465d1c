package sim

import (
	"math"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Told is a predicted end, as a job's speed record has it. Times are of the run.
type Told struct {
	At             time.Duration // when it was written
	Known          bool          // else none was predicted from then on
	End, Low, High time.Duration
}

// note keeps what a speed record predicts.
func (j *job) note(now time.Duration, p *record.Prediction) {
	t := Told{At: now}
	if p != nil {
		t.Known, t.End, t.Low, t.High = true, p.End.Sub(zero), p.Low.Sub(zero), p.High.Sub(zero)
	}
	j.told = append(j.told, t)
}

// at is what was predicted last by a time.
func (o Outcome) at(t time.Duration) (last Told) {
	for _, x := range o.Told {
		if x.At > t {
			break
		}
		last = x
	}
	return last
}

// Ends says how good predicted ends were, of jobs that finished. Its numbers are null
// where nothing was predicted.
type Ends struct {
	// EndsTold is the share of moments at which there was a prediction, and EndsCovered
	// the share of those at which the job's end lay in its range. The moments are 5 %, 15 % … 95 % of each job's
	// time from submission to end.
	EndsTold    *float64 `json:"ends_told"`
	EndsCovered *float64 `json:"ends_covered"`
	// EndErrorAt25 is the median error after a quarter of that time, relative to what was left then.
	EndErrorAt25 *float64 `json:"end_error_at_25"`
}

// moments is at how many moments of its life a job's prediction is judged.
const moments = 10

func endsOf(jobs []Outcome) (e Ends) {
	asked, told, covered := 0, 0, 0
	var off []float64
	for _, o := range jobs {
		if o.Phase != cluster.Succeeded {
			continue
		}
		life := o.End - o.Submit
		for i := range moments {
			asked++
			if p := o.at(o.Submit + life*time.Duration(2*i+1)/(2*moments)); p.Known {
				told++
				if p.Low <= o.End && o.End <= p.High {
					covered++
				}
			}
		}
		if p := o.at(o.Submit + life/4); p.Known {
			off = append(off, math.Abs(float64(p.End-o.End)/float64(life-life/4)))
		}
	}
	share := func(a, b int) *float64 {
		s := float64(a) / float64(b)
		return &s
	}
	if told > 0 {
		e.EndsTold, e.EndsCovered = share(told, asked), share(covered, told)
	}
	if len(off) > 0 {
		median := Quantile(off, 0.5)
		e.EndErrorAt25 = &median
	}
	return e
}

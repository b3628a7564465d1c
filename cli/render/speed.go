package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/units"
)

// speedOf is how fast a job trains now, in steps a second.
func speedOf(j api.JobStatus) string {
	if j.Ended || j.Progress.StepsPerSecond <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g", j.Progress.StepsPerSecond)
}

func lossOf(j api.JobStatus) string {
	if j.Progress.Loss == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *j.Progress.Loss)
}

// goodputOf is the share of a job's time with devices in which it did steps that count.
func goodputOf(j api.JobStatus) string {
	if j.Goodput == nil {
		return "-"
	}
	return fmt.Sprintf("%d%%", int(*j.Goodput*100))
}

// toGo is how long a job has to go, as predicted.
func (p View) toGo(j api.JobStatus) string {
	if j.Ended || j.Prediction == nil {
		return "-"
	}
	return p.until(j.Prediction.End)
}

// interval is in how long a job ends in nine of ten cases.
func (p View) interval(j api.JobStatus) string {
	if x := j.Prediction; !j.Ended && x != nil && x.EndLow != nil && x.EndHigh != nil {
		return p.until(*x.EndLow) + "-" + p.until(*x.EndHigh)
	}
	return "-"
}

// until says how long it is to a moment; none if it has passed.
func (p View) until(t time.Time) string { return units.Span(max(0, t.Sub(p.Now))) }

// end says when a job ends, as predicted.
func (p View) end(j api.JobStatus) string {
	x := j.Prediction
	if j.Ended || x == nil {
		return ""
	}
	text := fmt.Sprintf("%s, in %s", p.clock(x.End), p.until(x.End))
	if x.EndLow != nil && x.EndHigh != nil {
		text += fmt.Sprintf("; nine times in ten between %s and %s", p.clock(*x.EndLow), p.clock(*x.EndHigh))
	}
	return text
}

// speedHead writes what is known of the job's speed in the head of its page.
func (p *jobPage) speedHead() {
	p.field("ends", p.end(p.job))
	if p.job.Goodput != nil {
		p.field("goodput", goodputOf(p.job)+" of its time with devices went into steps that count")
	}
	p.field("loss", lossText(p.job.LossTrend))
	p.field("speed", p.job.SpeedProblem)
}

// lossText says how a loss goes; empty if that is not known.
func lossText(l *api.LossTrend) string {
	switch {
	case l == nil:
		return ""
	case l.Flat != "":
		return strings.TrimSuffix(l.Flat+": "+l.Remedy, ": ")
	}
	return fmt.Sprintf("falls by %.2g %% of all of its fall so far in 100 steps", 100*l.Fall)
}

// speeds writes the job's speed at each size.
func (p *jobPage) speeds() {
	if len(p.job.Speeds) == 0 {
		return
	}
	p.section("speeds")
	p.table(speedTable(p.job.Speeds, p.job.Starts))
}

// Speeds writes a job's speed at each size, and what its last start at each has cost.
func Speeds(w io.Writer, speeds []api.SizeSpeed, starts []api.StartCost, p View) error {
	t := speedTable(speeds, starts)
	return t.Write(w, p.Style)
}

func speedTable(speeds []api.SizeSpeed, starts []api.StartCost) output.Table {
	t := output.Table{Head: []string{"WORKERS", "STEPS/S", "90%", "RELATIVE", "START", "KNOWN BY"}}
	batches := slices.ContainsFunc(speeds, func(s api.SizeSpeed) bool { return s.Batch > 0 })
	if batches {
		t.Head = append(t.Head, "BEST BATCH")
	}
	for _, s := range speeds {
		by, within := "prediction", "-"
		if s.Measured {
			by = "measurement"
		}
		if s.High > 0 {
			within = fmt.Sprintf("%.3g-%.3g", s.Low, s.High)
		}
		row := []string{
			fmt.Sprint(s.Workers), fmt.Sprintf("%.3g", s.StepsPerSecond), within,
			fmt.Sprintf("%.2f", s.StepsPerSecond/speeds[0].StepsPerSecond), startOf(starts, s.Workers), by,
		}
		if batches {
			row = append(row, fmt.Sprint(s.Batch))
		}
		t.Add(row...)
	}
	return t
}

// batchText is what batch a job may have and has, and what is known of its gradients' noise.
func batchText(j api.JobStatus) string {
	text := "batch of " + Range(j.BatchSize.Min, j.BatchSize.Max, "sample")
	if j.BatchSize.Uneven {
		text += " in shares that may differ by one"
	}
	if j.BatchSize.Max <= j.BatchSize.Min {
		return text
	}
	if j.BatchLimit > 0 {
		return text + fmt.Sprintf(", but %d since a larger one ran out of memory: a smaller --micro-batch would let it have more", j.BatchLimit)
	}
	if j.Batch > 0 {
		text += fmt.Sprintf(", now %d", j.Batch)
	}
	switch {
	case j.NoiseScale != nil:
		return text + fmt.Sprintf("; gradient noise scale %.3g samples", *j.NoiseScale)
	case j.KindNoiseScale != nil:
		return text + fmt.Sprintf("; gradient noise scale %.3g samples, as the last job of its kind had at first", *j.KindNoiseScale)
	}
	if j.Batch > j.BatchSize.Min { // by a policy that needs no noise
		return text
	}
	return text + "; most policies leave it the smallest while no gradient noise is reported"
}

// startOf is what the newest start with so many workers has cost.
func startOf(starts []api.StartCost, workers int) string {
	text := "-"
	for _, c := range starts {
		if c.Workers == workers {
			text = fmt.Sprintf("%.1fs", c.Seconds)
		}
	}
	return text
}

// gainOf is by which factor a rescale has changed the speed, and was predicted to.
func gainOf(measured, predicted float64) string {
	switch {
	case measured > 0 && predicted > 0:
		return fmt.Sprintf("%.2f (%.2f)", measured, predicted)
	case measured > 0:
		return fmt.Sprintf("%.2f", measured)
	case predicted > 0:
		return fmt.Sprintf("(%.2f)", predicted)
	}
	return "-"
}

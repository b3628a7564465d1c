package shim

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

const (
	// keptSteps is how many steps' saves a report holds: one being confirmed, the
	// one before, and some for an agent that was away. An older one has been
	// superseded by then.
	keptSteps = 4
	// progressEvery is how often a report goes out for progress alone.
	progressEvery = time.Second
	// clockSet is by how much a clock differs from what it was if it has been set; less is its drift.
	clockSet = time.Second
)

// confirmation is an answer that waits for the report of its sequence to be on disk.
type confirmation struct {
	link     *link
	step     int64
	sequence int64
}

// reporter tells agents and disk what the shim knows. The loop owns it.
type reporter struct {
	*shared

	journal *journal
	agents  *agentServer

	report       run.Report
	dirty        bool // the report has changed
	fresh        bool // its progress has
	losses       losses
	progressDue  bool // progress waits for its next second
	sdkReports   bool // ranks say by the SDK how far they are: their lines do not count
	progressSent int64
	progressAt   time.Time           // of the newest, with its monotonic time
	first        *record.JobProgress // the first one of a finished step, to measure from
	firstAt      time.Time           // its moment, by the clock as it is set now
	sequence     int64               // of the newest report
	durable      int64               // of the newest one that is on disk
	unconfirmed  []confirmation
}

func (r *reporter) waiting(what string) {
	if r.report.Waiting != what {
		r.report.Waiting, r.dirty = what, true
	}
}

// echoDeadline has the report say which deadline is in force. That goes out at
// once; on disk it is of no use, and would be written with each renewal.
func (r *reporter) echoDeadline() {
	if r.order.Strict && r.report.Deadline != r.wish.Deadline {
		r.report.Deadline, r.fresh = r.wish.Deadline, true
	}
}

// stepReport tells agents and disk what has changed.
func (r *reporter) stepReport(now int64) {
	r.stepProgress(now)
	if !r.dirty && !r.fresh {
		return
	}
	b, err := json.Marshal(r.report)
	if err != nil {
		panic("shim: encode report: " + err.Error()) // plain data, and no number that JSON has no word for
	}
	b = append(b, '\n')
	r.agents.offer(b)
	if r.dirty {
		r.sequence++
		r.journal.offer(entry{b, r.sequence})
	}
	r.dirty, r.fresh = false, false
}

// stored hears from the journal that the report of that sequence is on disk.
func (r *reporter) stored(sequence int64) {
	r.durable = max(r.durable, sequence)
	r.confirm()
}

// addSave puts a save in its place: ascending by step, then rank.
func (r *reporter) addSave(s run.Save) {
	saves := slices.DeleteFunc(r.report.Saves, func(o run.Save) bool { return o.Step == s.Step && o.Rank == s.Rank })
	saves = append(saves, s)
	slices.SortFunc(saves, func(a, b run.Save) int {
		if a.Step != b.Step {
			return int(min(max(a.Step-b.Step, -1), 1))
		}
		return a.Rank - b.Rank
	})
	steps := 1
	for i := len(saves) - 1; i > 0; i-- {
		if saves[i].Step != saves[i-1].Step {
			if steps++; steps > keptSteps {
				saves = saves[i:]
				break
			}
		}
	}
	r.report.Saves, r.dirty = saves, true
}

// confirm answers the saves that are on disk by now.
func (r *reporter) confirm() {
	r.unconfirmed = slices.DeleteFunc(r.unconfirmed, func(c confirmation) bool {
		if c.sequence > r.durable {
			return false
		}
		c.link.send(toWorker{SavedOK: &c.step}, nil)
		return true
	})
}

// progressed notes how far a rank is. The node is as far as its first rank to say so:
// of a later one's word on the same step only what the first left out is news.
func (r *reporter) progressed(f finished) {
	if f.Step < 0 || f.Step > record.MaxCount || f.Samples > record.MaxCount {
		return
	}
	p := r.report.Progress
	r.losses.add(f)
	if p != nil && f.Step <= p.Step {
		if f.Step == p.Step && (p.Loss == nil && f.Loss != nil || p.NoiseScale == 0 && f.Noise > 0) {
			next := *p
			next.LossSum, next.Losses, next.BadLosses = r.losses.sum, r.losses.told, r.losses.bad
			next.Loss, next.NoiseScale, next.BaseSteps = cmp.Or(p.Loss, f.Loss), cmp.Or(p.NoiseScale, f.Noise), cmp.Or(p.BaseSteps, f.Base)
			r.report.Progress, r.progressDue = &next, true
		}
		return
	}
	next := &record.JobProgress{Generation: r.order.World.Generation, Step: f.Step, Samples: max(f.Samples, -1), Loss: f.Loss, NoiseScale: f.Noise, BaseSteps: f.Base, At: time.Now(), Line: f.line}
	next.LossSum, next.Losses, next.BadLosses = r.losses.sum, r.losses.told, r.losses.bad
	if p != nil { // not before the last report, whatever the script says
		age := time.Duration(min(max(f.Age, 0), next.At.Sub(r.progressAt).Seconds()) * float64(time.Second))
		next.At = next.At.Add(-age)
	}
	r.progressAt = next.At
	r.measure(next)
	r.report.Progress, r.progressDue = next, true
}

// losses are those that the node's ranks have told in the generation. One that is beyond
// record.MaxLoss would hide all others in the sum, and counts as none.
type losses struct {
	sum       float64
	told, bad int64
}

func (l *losses) add(f finished) {
	switch {
	case f.Loss != nil && math.Abs(*f.Loss) <= record.MaxLoss:
		l.sum += *f.Loss
		l.told++
	case f.Loss != nil || f.BadLoss:
		l.bad++
	}
}

// measure adds to a report how fast the generation is, from its first finished step on.
// A script may report the step that it begins with: nothing is finished then.
func (r *reporter) measure(p *record.JobProgress) {
	if r.first == nil {
		begin := int64(0)
		if r.order.Resume != nil {
			begin = r.order.Resume.Step
		}
		if p.Step == 0 || p.Step == begin {
			return
		}
		r.first = &record.JobProgress{Step: p.Step, Samples: p.Samples, At: p.At}
	}
	took := p.At.Sub(r.first.At) // by the monotonic clock
	// Where the clock was set since, the moment moves with it, so that it stays as long ago as it is.
	if at := p.At.Round(0).Add(-took); r.firstAt.Sub(at).Abs() > clockSet {
		r.firstAt = at
	}
	p.FirstStep, p.FirstAt = r.first.Step, r.firstAt
	if took > 0 {
		p.StepsPerSecond = float64(p.Step-r.first.Step) / took.Seconds()
		if r.first.Samples >= 0 && p.Samples > r.first.Samples {
			p.SamplesPerSecond = float64(p.Samples-r.first.Samples) / took.Seconds()
		}
	}
}

// stepProgress lets progress into a report when one is due for it.
func (r *reporter) stepProgress(now int64) {
	if !r.progressDue {
		return
	}
	if due := r.progressSent + int64(progressEvery); now < due {
		r.alarm.at(due)
		return
	}
	r.progressDue, r.progressSent, r.fresh = false, now, true
}

package shim

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/record"
)

const (
	// keptSteps is how many steps' saves a report holds: one being confirmed, the
	// one before, and some for an agent that was away. An older one has been
	// superseded by then.
	keptSteps = 4
	// progressEvery is how often a report goes out for progress alone.
	progressEvery = time.Second
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

	report       Report
	dirty        bool // the report has changed
	fresh        bool // its progress has
	progressDue  bool // progress waits for its next second
	progressSent int64
	progressFrom *record.JobProgress // the first one, to measure from
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

// settleReport tells agents and disk what has changed.
func (r *reporter) settleReport(now int64) {
	r.settleProgress(now)
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
func (r *reporter) addSave(s Save) {
	saves := slices.DeleteFunc(r.report.Saves, func(o Save) bool { return o.Step == s.Step && o.Rank == s.Rank })
	saves = append(saves, s)
	slices.SortFunc(saves, func(a, b Save) int {
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

// progressed notes how far a rank is. The node is as far as its first rank to say so.
func (r *reporter) progressed(step, samples int64, loss *float64) {
	p := r.report.Progress
	if p != nil && (step < p.Step || step == p.Step && (loss == nil || p.Loss != nil)) {
		return
	}
	next := &record.JobProgress{Generation: r.order.World.Generation, Step: step, Samples: samples, Loss: loss, At: time.Now()}
	if r.progressFrom == nil {
		r.progressFrom = next
	} else if took := next.At.Sub(r.progressFrom.At).Seconds(); took > 0 {
		next.StepsPerSecond = float64(next.Step-r.progressFrom.Step) / took
	}
	r.report.Progress, r.progressDue = next, true
}

// settleProgress lets progress into a report when one is due for it.
func (r *reporter) settleProgress(now int64) {
	if !r.progressDue {
		return
	}
	if due := r.progressSent + int64(progressEvery); now < due {
		r.alarm.at(due)
		return
	}
	r.progressDue, r.progressSent, r.fresh = false, now, true
}

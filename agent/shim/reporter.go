package shim

import (
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

// addSave puts a save in its place: ascending by step, then rank.
func (m *machine) addSave(s Save) {
	saves := slices.DeleteFunc(m.report.Saves, func(o Save) bool { return o.Step == s.Step && o.Rank == s.Rank })
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
	m.report.Saves, m.dirty = saves, true
}

// confirm answers the saves that are on disk by now.
func (m *machine) confirm() {
	m.unconfirmed = slices.DeleteFunc(m.unconfirmed, func(c confirmation) bool {
		if c.sequence > m.durable {
			return false
		}
		c.link.send(toWorker{SavedOK: &c.step}, nil)
		return true
	})
}

// progressed notes how far a rank is. The node is as far as its first rank to say so.
func (m *machine) progressed(step, samples int64, loss *float64) {
	p := m.report.Progress
	if p != nil && (step < p.Step || step == p.Step && (loss == nil || p.Loss != nil)) {
		return
	}
	next := &record.JobProgress{Generation: m.order.World.Generation, Step: step, Samples: samples, Loss: loss, At: time.Now()}
	if m.progressFrom == nil {
		m.progressFrom = next
	} else if took := next.At.Sub(m.progressFrom.At).Seconds(); took > 0 {
		next.StepsPerSecond = float64(next.Step-m.progressFrom.Step) / took
	}
	m.report.Progress, m.progressDue = next, true
}

// settleProgress lets progress into a report when one is due for it.
func (m *machine) settleProgress(now int64) {
	if !m.progressDue {
		return
	}
	if due := m.progressSent + int64(progressEvery); now < due {
		m.alarm.at(due)
		return
	}
	m.progressDue, m.progressSent, m.fresh = false, now, true
}

package shim

import (
	"encoding/json"
	"slices"
)

// confirmation is an answer to a rank's save that waits for the report of its sequence to be on disk.
type confirmation struct {
	link     *link
	step     int64
	sequence int64
}

// publish tells agents and disk what has changed.
func (m *machine) publish() {
	if !m.due.Tell {
		return
	}
	b, err := json.Marshal(m.state.Report)
	if err != nil {
		panic("shim: encode report: " + err.Error()) // plain data, and no number that JSON has no word for
	}
	b = append(b, '\n')
	m.agents.offer(b)
	if m.due.Keep {
		m.sequence++
		m.facts.Written = false
		m.journal.offer(entry{b, m.sequence})
	}
}

// stored hears from the journal that the report of that sequence is on disk, and answers the saves that it holds.
func (m *machine) stored(sequence int64) {
	m.durable = max(m.durable, sequence)
	m.facts.Written = m.durable == m.sequence
	m.unconfirmed = slices.DeleteFunc(m.unconfirmed, func(c confirmation) bool {
		if c.sequence > m.durable {
			return false
		}
		c.link.send(toWorker{SavedOK: &c.step}, nil)
		return true
	})
}

// confirmLater has a save that was just noted be answered once the next report is on disk.
func (m *machine) confirmLater(k *link, step int64) {
	m.unconfirmed = append(m.unconfirmed, confirmation{k, step, m.sequence + 1})
}

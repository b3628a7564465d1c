package shim

import (
	"time"

	"github.com/rs/zerolog"
)

// journalRetry is the pause after a report that could not be written: a full disk
// is made room on by people.
const journalRetry = time.Second

// entry is a report on its way to disk.
type entry struct {
	report   []byte
	sequence int64
}

// journal keeps the last report on disk. It writes beside the machine, only ever
// the newest, and tries again until that succeeds: what cannot be written is
// still told to the agent.
type journal struct {
	path   string
	slot   chan entry // the newest not yet begun
	stored func(sequence int64)
	done   <-chan struct{}
	log    zerolog.Logger
}

// offer replaces what waits to be written. Only the machine calls it.
func (j *journal) offer(e entry) {
	select {
	case <-j.slot:
	default:
	}
	j.slot <- e
}

func (j *journal) run() {
	complained := false
	for {
		var e entry
		select {
		case e = <-j.slot:
		case <-j.done:
			return
		}
		for {
			err := replaceDurable(j.path, e.report)
			if err == nil {
				complained = false
				break
			}
			if !complained {
				complained = true
				j.log.Error().Err(err).Msg("write report; trying again until it succeeds")
			}
			select {
			case e = <-j.slot:
			case <-time.After(journalRetry):
			case <-j.done:
				return
			}
		}
		j.stored(e.sequence)
	}
}

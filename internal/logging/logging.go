// Package logging takes log lines without ever making their writer wait.
//
// It promises that Write returns at once whatever becomes of the file behind it:
// a disk that hangs, a pipe that is full, a journal that has stopped. Who keeps a
// deadline can log with it. What does not fit into the queue is lost, and the log
// says how many lines are missing, and where, once it can be written again. Lines
// keep their order.
//
// It is not zerolog's diode: that one tells of a collision between two writers by
// the standard logger, which writes to stderr and so waits for it, and wakes its
// reader without a lock, so that a line may lie until the next one comes.
package logging

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	// queued is how many lines wait at most: some minutes of a busy agent's, a few
	// hundred kilobytes.
	queued = 1024
	// Patience is how long the end of a process waits for its last lines to be
	// written. They matter to people only.
	Patience = time.Second
)

// Writer is an io.Writer that hands lines to another one, from a goroutine of its own.
type Writer struct {
	lines   chan []byte
	ending  chan struct{}
	ended   chan struct{}
	missing atomic.Int64 // lines that were lost since the last notice
}

// NewWriter returns a Writer to w. Close it in the end.
func NewWriter(w io.Writer) *Writer {
	l := &Writer{lines: make(chan []byte, queued), ending: make(chan struct{}), ended: make(chan struct{})}
	go l.run(w)
	return l
}

// Write implements io.Writer. It keeps a copy, never waits and never fails.
func (l *Writer) Write(line []byte) (int, error) {
	select {
	case l.lines <- bytes.Clone(line):
	default:
		l.missing.Add(1)
	}
	return len(line), nil
}

// Close has what is queued written, for as long as Patience, and ends the
// Writer. What is written to it later is lost. Call it once.
func (l *Writer) Close() {
	close(l.ending)
	select {
	case <-l.ended:
	case <-time.After(Patience):
	}
}

func (l *Writer) run(w io.Writer) {
	defer close(l.ended)
	for {
		select {
		case line := <-l.lines:
			l.write(w, line)
		case <-l.ending:
			for {
				select {
				case line := <-l.lines:
					l.write(w, line)
				default:
					l.confess(w)
					return
				}
			}
		}
	}
}

// write writes a line, and after the last of those that were queued how many came
// too late for the queue.
func (l *Writer) write(w io.Writer, line []byte) {
	_, _ = w.Write(line) // there is no other place to tell
	if len(l.lines) == 0 {
		l.confess(w)
	}
}

// confess says in the log itself what is missing from it.
func (l *Writer) confess(w io.Writer) {
	if n := l.missing.Swap(0); n > 0 {
		log := zerolog.New(w).With().Timestamp().Logger()
		log.Warn().Int64("lines", n).Msg("lines are missing here: the log could not be written in time")
	}
}

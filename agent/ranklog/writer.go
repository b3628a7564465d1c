package ranklog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// markEvery is how close in time two marks of a log may be.
	markEvery = time.Second
	// markBytes is how much is written between two marks, so that they take a small
	// part of the room that the log does, unless
	markBytes = 512
	// so much time has passed.
	markAtLeast = time.Minute
)

// reopenEvery is how often a log that could not be opened is tried again.
const reopenEvery = time.Second

// Writer keeps what a rank prints, capped, in a file and the one rotated away before
// it. The n-th file of a rank gets its number, so that a reader knows where it was
// however often the log is rotated meanwhile, and the one being written is the one
// after the last of those. Logs are their owner's, who reads them through the agent:
// other users of the machine must not see them. One goroutine may use a Writer.
type Writer struct {
	path  string
	limit int64 // bytes of each of the two files

	file    *os.File
	size    int64
	opened  time.Time // when opening was last tried
	dropped int       // lines that could not be written
	marks   marks     // when it was written
}

// NewWriter returns one for a rank's log, which takes so many bytes at most. The
// file and its folder are made by the first Write.
func NewWriter(path string, bytes int64) *Writer {
	return &Writer{path: path, limit: max(bytes/2, 1)}
}

// Close ends the log.
func (w *Writer) Close() {
	if w.file != nil {
		_ = w.file.Close() // each line was written as it came
	}
	w.unmark()
}

// Add appends b to the log, rotating at line ends where there are any.
func (w *Writer) Add(b []byte) {
	for len(b) > 0 {
		if w.file == nil && !w.open() {
			w.dropped += bytes.Count(b, []byte("\n"))
			return
		}
		fits := min(int64(len(b)), w.limit-w.size)
		if fits < int64(len(b)) {
			if end := bytes.LastIndexByte(b[:max(fits, 0)], '\n'); end >= 0 {
				fits = int64(end) + 1
			} else if w.size > 0 { // the line goes to the next file as a whole
				fits = 0
			}
		}
		if fits > 0 {
			w.mark(time.Now())
		}
		n, err := w.file.Write(b[:fits])
		w.size += int64(n)
		if n > 0 {
			w.marks.inLine = b[n-1] != '\n'
		}
		if err != nil {
			w.dropped += 1 + bytes.Count(b[n:], []byte("\n"))
			return
		}
		if b = b[fits:]; len(b) > 0 {
			w.rotate()
		} else if w.dropped > 0 {
			w.reportDropped()
		}
	}
}

// reportDropped says in the log itself what is missing from it.
func (w *Writer) reportDropped() {
	n, err := fmt.Fprintf(w.file, "[bellows: about %d lines are missing here: the log could not be written]\n", w.dropped)
	w.size += int64(n)
	if err == nil {
		w.dropped = 0
	}
}

// rotate gives the full file its number and only then deletes the one before: at
// no time does the directory say that fewer files have been written.
func (w *Writer) rotate() {
	_ = w.file.Close()
	w.file, w.opened = nil, time.Time{}
	w.unmark()
	before, _ := rotated(w.path) // what cannot be listed has no numbers that matter
	number := next(before)
	if err := os.Rename(w.path, numbered(w.path, number)); err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			// Better the newest lines than the oldest ones, and never more than the cap.
			_ = os.Truncate(w.path, 0)
			w.sweepTimes(number + 1)
		}
		return
	}
	for _, n := range before {
		_ = os.Remove(numbered(w.path, n)) // if it stays, the next rotation tries again
	}
	w.sweepTimes(number)
}

func (w *Writer) open() bool {
	if time.Since(w.opened) < reopenEvery {
		return false
	}
	w.opened = time.Now()
	if err := os.MkdirAll(filepath.Dir(w.path), 0o700); err != nil {
		return false
	}
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return false
	}
	w.file, w.size = f, info.Size()
	return true
}

// marks are when a log was written, as far as its file of times says.
type marks struct {
	file   *os.File
	last   time.Time
	offset int64
	inLine bool // what was written last has not ended its line
}

// mark notes that what is written next begins at this offset, if it is time for
// that. That it cannot be noted is no reason to lose lines.
func (w *Writer) mark(now time.Time) {
	m := &w.marks
	since := now.Sub(m.last)
	if m.inLine || m.file != nil && since < markAtLeast && (since < markEvery || w.size-m.offset < markBytes) {
		return
	}
	if m.file == nil {
		f, err := os.OpenFile(timesOf(w.path, w.number()), os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return
		}
		m.file = f
	}
	_, _ = fmt.Fprintf(m.file, "%d %d\n", now.UnixMilli(), w.size)
	m.last, m.offset = now, w.size
}

// number is the one of the file that is being written.
func (w *Writer) number() int {
	before, _ := rotated(w.path) // what cannot be listed has no numbers that matter
	return next(before)
}

// unmark ends the marks of a file.
func (w *Writer) unmark() {
	if w.marks.file != nil {
		_ = w.marks.file.Close()
	}
	w.marks = marks{inLine: w.marks.inLine}
}

// sweepTimes deletes the times of log files that are gone.
func (w *Writer) sweepTimes(oldest int) {
	all, _ := filepath.Glob(timesPrefix(w.path) + "*")
	for _, name := range all {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, timesPrefix(w.path))); err == nil && n < oldest {
			_ = os.Remove(name)
		}
	}
}

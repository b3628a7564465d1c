package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// logTimes is the file that says when what stands in a rank's log file of this
// number was written: lines of a time in milliseconds since 1970 and an offset,
// at which a line begins. Lines themselves carry no times: they are the worker's.
func logTimes(log string, number int) string {
	return fmt.Sprintf("%s.times.%d", strings.TrimSuffix(log, ".log"), number)
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
func (l *workerLog) mark(now time.Time) {
	m := &l.marks
	since := now.Sub(m.last)
	if m.inLine || m.file != nil && since < markAtLeast && (since < markEvery || l.size-m.offset < markBytes) {
		return
	}
	if m.file == nil {
		f, err := os.OpenFile(logTimes(l.path, l.number()), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return
		}
		m.file = f
	}
	_, _ = fmt.Fprintf(m.file, "%d %d\n", now.UnixMilli(), l.size)
	m.last, m.offset = now, l.size
}

// number is the one of the file that is being written.
func (l *workerLog) number() int {
	if before := l.rotated(); len(before) > 0 {
		return before[len(before)-1] + 1
	}
	return 1
}

// unmark ends the marks of a file.
func (l *workerLog) unmark() {
	if l.marks.file != nil {
		_ = l.marks.file.Close()
	}
	l.marks = marks{inLine: l.marks.inLine}
}

// sweepTimes deletes the times of log files that are gone.
func (l *workerLog) sweepTimes(oldest int) {
	all, _ := filepath.Glob(logTimes(l.path, 0)[:len(logTimes(l.path, 0))-1] + "*")
	for _, name := range all {
		var n int
		if _, err := fmt.Sscanf(filepath.Ext(name), ".%d", &n); err == nil && n < oldest {
			_ = os.Remove(name)
		}
	}
}

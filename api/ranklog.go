package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// maxLine is how much of a line is shown; a worker may write one without end.
	maxLine = 64 << 10
	// cutMark ends a line that was longer.
	cutMark = " … [line cut at 64 KiB]"
	// openAttempts bounds how often opening begins anew because the log was rotated meanwhile.
	openAttempts = 5
)

// Position is a place in what one rank wrote in one generation. It stays true when
// logs are rotated, and when agents restart.
type Position struct {
	File   int   `json:"file"`   // from 1; goes on over rotations
	Offset int64 `json:"offset"` // in bytes
}

// logText is a line of a log, or in words why lines are missing.
type logText struct {
	text  string
	after Position // of a line: its end
	gap   string
}

// rankLog reads what one rank wrote, across rotations: the files path.<n>, of
// which only the newest is kept, and then path, which is the one after them. It
// may be read again and again while the files grow.
type rankLog struct {
	path   string
	number int // of file, or of the one to open; 0 = the oldest that is kept
	file   *os.File
	offset int64  // read up to here
	gap    string // to be told before the next line
	line   []byte // the unfinished last line
	cut    bool   // line is full; the rest of it is skipped
}

// newRankLog reads on after a position; the zero position is the beginning of what is kept.
func newRankLog(path string, after Position) *rankLog {
	return &rankLog{path: path, number: after.File, offset: after.Offset}
}

// poll hands every line that has been finished since to emit.
func (l *rankLog) poll(emit func(logText) error) error {
	for {
		if l.file == nil {
			if err := l.open(); errors.Is(err, fs.ErrNotExist) {
				return nil // not written yet, or between the two steps of a rotation
			} else if err != nil {
				return err
			}
		}
		rotated, err := l.rotated()
		if err != nil {
			return err
		}
		if l.gap != "" {
			if err = emit(logText{gap: l.gap}); err != nil {
				return err
			}
			l.gap, l.line, l.cut = "", l.line[:0], false
		}
		// Drained after the look, so that nothing written before a rotation is missed.
		if err = l.drain(emit); err != nil {
			return err
		}
		if !rotated {
			return nil
		}
		_ = l.file.Close()
		l.file, l.number, l.offset = nil, l.number+1, 0
	}
}

// finish hands the unfinished last line to emit: no writer will finish it.
func (l *rankLog) finish(emit func(logText) error) error {
	if len(l.line) == 0 {
		return nil
	}
	return l.emitLine(Position{l.number, l.offset}, emit)
}

func (l *rankLog) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

// open opens the file with the number that comes next, or the first one after it that is still there.
func (l *rankLog) open() error {
	f, number, err := openNumber(l.path, l.number)
	if err != nil {
		return err
	}
	return l.begin(f, number)
}

// openNumber opens a rank's log file of this number, or the first one after it
// that is still there, and returns which it is.
func openNumber(path string, want int) (*os.File, int, error) {
	for range openAttempts {
		kept, err := rotatedLogs(path)
		if err != nil {
			return nil, 0, err
		}
		name, number := path, max(want, next(kept))
		if i, _ := slices.BinarySearch(kept, max(want, 1)); i < len(kept) {
			number = kept[i]
			name = numbered(path, number)
		}
		f, err := openLog(name)
		if errors.Is(err, fs.ErrNotExist) && name != path {
			continue // rotated and deleted meanwhile
		}
		if err != nil {
			return nil, 0, err
		}
		now, err := rotatedLogs(path)
		if err == nil && (name != path || next(now) == next(kept)) {
			return f, number, nil
		}
		_ = f.Close() // it may be a later one than its name said
		if err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, fs.ErrNotExist // the next poll tries again
}

// begin reads on in a file, and notices what is missing before it.
func (l *rankLog) begin(f *os.File, number int) error {
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("read log: %w", err)
	}
	switch {
	case l.number == 0 && number > 1:
		l.gap = "what it wrote before this is not kept: the log of a rank is capped"
	case l.number != 0 && number > l.number:
		l.gap = "lines are missing here: they were rotated away before they could be read"
	case info.Size() < l.offset:
		l.gap = emptied
	}
	if number != l.number || info.Size() < l.offset {
		l.offset = 0
	}
	l.file, l.number = f, number
	return nil
}

// emptied is the gap where a log that could not be rotated was emptied in place.
const emptied = "lines may be missing here: the log was emptied, because it could not be rotated"

func numbered(path string, n int) string { return path + "." + strconv.Itoa(n) }

// next is the number of the file that is being written, where these have been rotated away.
func next(rotated []int) int {
	if len(rotated) == 0 {
		return 1
	}
	return rotated[len(rotated)-1] + 1
}

// rotatedLogs lists the numbers of the files that were rotated away and are still there, ascending.
func rotatedLogs(path string) (numbers []int, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	for _, e := range entries {
		if s, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+"."); ok {
			if n, err := strconv.Atoi(s); err == nil && n > 0 {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// openLog opens a log file, and nothing that a link in its place leads to.
func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// rotated reports whether path is another file by now. One that has become
// shorter was emptied in place, and is read from its beginning.
func (l *rankLog) rotated() (bool, error) {
	mine, err := l.file.Stat()
	if err != nil {
		return false, fmt.Errorf("read log: %w", err)
	}
	now, err := os.Lstat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read log: %w", err)
	case !os.SameFile(mine, now):
		return true, nil
	}
	if mine.Size() < l.offset {
		l.offset, l.gap = 0, emptied
	}
	return false, nil
}

func (l *rankLog) drain(emit func(logText) error) error {
	buf := make([]byte, maxLine)
	for {
		n, err := l.file.ReadAt(buf, l.offset)
		if emitErr := l.split(buf[:n], emit); emitErr != nil {
			return emitErr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
	}
}

func (l *rankLog) split(data []byte, emit func(logText) error) error {
	for len(data) > 0 {
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		l.offset += int64(len(data) - len(rest))
		if room := maxLine - len(l.line); len(part) > room {
			part, l.cut = part[:room], true
		}
		l.line = append(l.line, part...)
		if ended {
			if err := l.emitLine(Position{l.number, l.offset}, emit); err != nil {
				return err
			}
		}
		data = rest
	}
	return nil
}

func (l *rankLog) emitLine(end Position, emit func(logText) error) error {
	text := string(bytes.ToValidUTF8(bytes.TrimSuffix(l.line, []byte{'\r'}), []byte("\ufffd")))
	if l.cut {
		text += cutMark
	}
	l.line, l.cut = l.line[:0], false
	return emit(logText{text: text, after: end})
}

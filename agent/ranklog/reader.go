package ranklog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
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

// Text is a line of a log, or in words why lines are missing.
type Text struct {
	Line  string
	After Position // of a line: its end
	Gap   string   // in words, why lines are missing here; empty = this is a line
}

// Reader reads what one rank wrote, across rotations: the files path.<n>, of
// which only the newest is kept, and then path, which is the one after them. It
// may be read again and again while the files grow.
type Reader struct {
	path   string
	number int // of file, or of the one to open; 0 = the oldest that is kept
	file   *os.File
	offset int64  // read up to here
	gap    string // to be told before the next line
	line   []byte // the unfinished last line
	cut    bool   // line is full; the rest of it is skipped
}

// NewReader reads on after a position; the zero position is the beginning of what is kept.
func NewReader(path string, after Position) *Reader {
	return &Reader{path: path, number: after.File, offset: after.Offset}
}

// Poll hands every line that has been finished since to emit.
func (r *Reader) Poll(emit func(Text) error) error {
	for {
		if r.file == nil {
			if err := r.open(); errors.Is(err, fs.ErrNotExist) {
				return nil // not written yet, or between the two steps of a rotation
			} else if err != nil {
				return err
			}
		}
		full, err := r.wasRotated()
		if err != nil {
			return err
		}
		if r.gap != "" {
			if err = emit(Text{Gap: r.gap}); err != nil {
				return err
			}
			r.gap, r.line, r.cut = "", r.line[:0], false
		}
		// Drained after the look, so that nothing written before a rotation is missed.
		if err = r.drain(emit); err != nil {
			return err
		}
		if !full {
			return nil
		}
		_ = r.file.Close()
		r.file, r.number, r.offset = nil, r.number+1, 0
	}
}

// Finish hands the unfinished last line to emit, which will not be finished any more.
func (r *Reader) Finish(emit func(Text) error) error {
	if len(r.line) == 0 {
		return nil
	}
	return r.emitLine(Position{r.number, r.offset}, emit)
}

// Close ends the reading.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// open opens the file with the number that comes next, or the first one after it that is still there.
func (r *Reader) open() error {
	f, number, err := openNumber(r.path, r.number)
	if err != nil {
		return err
	}
	return r.begin(f, number)
}

// openNumber opens a rank's log file of this number, or the first one after it
// that is still there, and returns which it is.
func openNumber(path string, want int) (*os.File, int, error) {
	for range openAttempts {
		kept, err := rotated(path)
		if err != nil {
			return nil, 0, err
		}
		name, number := path, max(want, next(kept))
		if i, _ := slices.BinarySearch(kept, max(want, 1)); i < len(kept) {
			number = kept[i]
			name = numbered(path, number)
		}
		f, err := open(name)
		if errors.Is(err, fs.ErrNotExist) && name != path {
			continue // rotated and deleted meanwhile
		}
		if err != nil {
			return nil, 0, err
		}
		now, err := rotated(path)
		if err == nil && (name != path || next(now) == next(kept)) {
			return f, number, nil
		}
		_ = f.Close() // it may be a later one than its name said
		if err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, fs.ErrNotExist // the next poll looks again
}

// begin reads on in a file, and notices what is missing before it.
func (r *Reader) begin(f *os.File, number int) error {
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("read log: %w", err)
	}
	switch {
	case r.number == 0 && number > 1:
		r.gap = "what it wrote before this is not kept: the log of a rank is capped"
	case r.number != 0 && number > r.number:
		r.gap = "lines are missing here: they were rotated away before they could be read"
	case info.Size() < r.offset:
		r.gap = emptied
	}
	if number != r.number || info.Size() < r.offset {
		r.offset = 0
	}
	r.file, r.number = f, number
	return nil
}

// emptied is the gap where a log that could not be rotated was emptied in place.
const emptied = "lines may be missing here: the log was emptied, because it could not be rotated"

// wasRotated reports whether path is another file by now. One that has become
// shorter was emptied in place, and is read from its beginning.
func (r *Reader) wasRotated() (bool, error) {
	mine, err := r.file.Stat()
	if err != nil {
		return false, fmt.Errorf("read log: %w", err)
	}
	now, err := os.Lstat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read log: %w", err)
	case !os.SameFile(mine, now):
		return true, nil
	}
	if mine.Size() < r.offset {
		r.offset, r.gap = 0, emptied
	}
	return false, nil
}

func (r *Reader) drain(emit func(Text) error) error {
	buf := make([]byte, maxLine)
	for {
		n, err := r.file.ReadAt(buf, r.offset)
		if emitErr := r.split(buf[:n], emit); emitErr != nil {
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

func (r *Reader) split(data []byte, emit func(Text) error) error {
	for len(data) > 0 {
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		r.offset += int64(len(data) - len(rest))
		if room := maxLine - len(r.line); len(part) > room {
			part, r.cut = part[:room], true
		}
		r.line = append(r.line, part...)
		if ended {
			if err := r.emitLine(Position{r.number, r.offset}, emit); err != nil {
				return err
			}
		}
		data = rest
	}
	return nil
}

func (r *Reader) emitLine(end Position, emit func(Text) error) error {
	text := string(bytes.ToValidUTF8(bytes.TrimSuffix(r.line, []byte{'\r'}), []byte("\ufffd")))
	if r.cut {
		text += cutMark
	}
	r.line, r.cut = r.line[:0], false
	return emit(Text{Line: text, After: end})
}

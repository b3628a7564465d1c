package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const (
	// maxLine is how much of a line is shown; a worker may write one without end.
	maxLine = 64 << 10
	// cutMark ends a line that was longer.
	cutMark = " … [line cut at 64 KiB]"
)

// rankLog reads what one rank wrote, across rotations: path, and before it the
// rotated path.1. It may be read again and again while the files grow.
type rankLog struct {
	path   string
	file   *os.File
	past   os.FileInfo // the file finished last, so that it is not read twice as path.1
	offset int64
	line   []byte // the unfinished last line
	cut    bool   // line is full; the rest of it is skipped
}

// poll hands every line that has been finished since to emit.
func (l *rankLog) poll(emit func(string) error) error {
	for {
		if l.file == nil {
			f, err := l.next()
			if errors.Is(err, fs.ErrNotExist) {
				return nil // not written yet, or between the two steps of a rotation
			}
			if err != nil {
				return err
			}
			l.file, l.offset = f, 0
		}
		rotated, err := l.rotated()
		if err != nil {
			return err
		}
		// Drained after the look, so that nothing written before a rotation is missed.
		if err = l.drain(emit); err != nil {
			return err
		}
		if !rotated {
			return nil
		}
		if l.past, err = l.file.Stat(); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		_ = l.file.Close()
		l.file = nil
	}
}

// finish hands the unfinished last line to emit: nobody will finish it.
func (l *rankLog) finish(emit func(string) error) error {
	if len(l.line) == 0 {
		return nil
	}
	return l.emitLine(emit)
}

func (l *rankLog) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

// next opens what comes after the file finished last.
func (l *rankLog) next() (*os.File, error) {
	old, err := openLog(l.path + ".1")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return openLog(l.path)
	case err != nil:
		return nil, err
	case l.past == nil:
		return old, nil
	}
	info, err := old.Stat()
	if err == nil && !os.SameFile(info, l.past) {
		return old, nil
	}
	_ = old.Close()
	return openLog(l.path)
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
		l.offset = 0
	}
	return false, nil
}

func (l *rankLog) drain(emit func(string) error) error {
	buf := make([]byte, maxLine)
	for {
		n, err := l.file.ReadAt(buf, l.offset)
		l.offset += int64(n)
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

func (l *rankLog) split(data []byte, emit func(string) error) error {
	for len(data) > 0 {
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		if room := maxLine - len(l.line); len(part) > room {
			part, l.cut = part[:room], true
		}
		l.line = append(l.line, part...)
		if ended {
			if err := l.emitLine(emit); err != nil {
				return err
			}
		}
		data = rest
	}
	return nil
}

func (l *rankLog) emitLine(emit func(string) error) error {
	text := string(bytes.ToValidUTF8(bytes.TrimSuffix(l.line, []byte{'\r'}), []byte("\ufffd")))
	if l.cut {
		text += cutMark
	}
	l.line, l.cut = l.line[:0], false
	return emit(text)
}

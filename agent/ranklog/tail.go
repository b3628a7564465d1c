package ranklog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// TailStart returns where the last so many lines of a rank's log begin. A last
// line that is not finished counts as one.
func TailStart(path string, lines int) (Position, error) {
	kept, err := rotated(path)
	if err != nil {
		return Position{}, err
	}
	start, atEnd := Position{}, true
	for _, number := range slices.Backward(append(kept, next(kept))) {
		f, got, err := openNumber(path, number)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing is written to it yet
		}
		if err != nil {
			return Position{}, err
		}
		if got != number { // rotated away since it was listed
			_ = f.Close()
			break
		}
		offset, left, empty, err := scanBack(f, lines, atEnd)
		_ = f.Close()
		if err != nil {
			return Position{}, err
		}
		start = Position{File: number, Offset: offset}
		if atEnd = atEnd && empty; left == 0 {
			break
		}
		lines = left
	}
	return start, nil
}

// scanBack returns where the last lines of a file begin, and how many of them lie
// in files before it. A newline at the end of all that was written begins no line.
func scanBack(f *os.File, lines int, atEnd bool) (offset int64, left int, empty bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, false, fmt.Errorf("read log: %w", err)
	}
	size := info.Size()
	if lines == 0 {
		return size, 0, size == 0, nil
	}
	buf := make([]byte, maxLine)
	for end := size; end > 0; {
		from := max(0, end-int64(len(buf)))
		chunk := buf[:end-from]
		if n, err := f.ReadAt(chunk, from); n < len(chunk) {
			return 0, 0, false, fmt.Errorf("read log: %w", err)
		}
		if atEnd && end == size {
			chunk = bytes.TrimSuffix(chunk, []byte{'\n'})
		}
		for i := bytes.LastIndexByte(chunk, '\n'); i >= 0; i = bytes.LastIndexByte(chunk[:i], '\n') {
			if lines--; lines == 0 {
				return from + int64(i) + 1, 0, false, nil
			}
		}
		end = from
	}
	return 0, lines, size == 0, nil
}

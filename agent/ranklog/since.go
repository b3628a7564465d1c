package ranklog

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// SinceStart returns a place in a rank's log after which all stands that was
// written at a time or later, and little else: the last one before it whose time
// is known. Where no times are known it is the beginning of what is kept.
func SinceStart(path string, t time.Time) (Position, error) {
	kept, err := rotated(path)
	if err != nil {
		return Position{}, err
	}
	for i, number := range slices.Backward(append(kept, next(kept))) {
		name := path
		if i < len(kept) {
			name = numbered(path, number)
		}
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing is written to it yet
		}
		if err != nil {
			return Position{}, fmt.Errorf("read log: %w", err)
		}
		if info.ModTime().Before(t) { // all of it is older
			return Position{File: number, Offset: info.Size()}, nil
		}
		offset, found, err := lastMark(timesOf(path, number), t)
		if err != nil {
			return Position{}, err
		}
		if found {
			return Position{File: number, Offset: offset}, nil
		}
	}
	return Position{}, nil
}

// lastMark returns the last offset that was written before t.
func lastMark(path string, t time.Time) (offset int64, found bool, err error) {
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var ms, at int64
		if n, _ := fmt.Sscanf(lines.Text(), "%d %d", &ms, &at); n == 2 && ms < t.UnixMilli() {
			offset, found = at, true
		}
	}
	return offset, found, nil
}

package ranklog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	prefix = "rank-"
	suffix = ".log"
)

// Path is the log of a rank in the folder of its generation.
func Path(folder string, rank int) string {
	return filepath.Join(folder, prefix+strconv.Itoa(rank)+suffix)
}

// Ranks lists the ranks that have log files in a folder, ascending. A folder that
// does not exist has none.
func Ranks(folder string) ([]int, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	var ranks []int
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), prefix)
		name, number, isLog := strings.Cut(name, suffix)
		if n, err := strconv.Atoi(strings.TrimPrefix(number, ".")); !ok || !isLog || number != "" && (err != nil || n < 1) {
			continue
		}
		if rank, err := strconv.Atoi(name); err == nil {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks), nil
}

// numbered is the file with this number, once it was rotated away.
func numbered(path string, n int) string { return path + "." + strconv.Itoa(n) }

// timesOf is the file of times of the log file with this number: lines of a time in
// milliseconds since 1970 and an offset, at which a line begins. Lines of the log
// carry no times: they are the worker's.
func timesOf(path string, n int) string { return timesPrefix(path) + strconv.Itoa(n) }

func timesPrefix(path string) string { return strings.TrimSuffix(path, suffix) + ".times." }

// next is the number of the file that is being written, where these have been rotated away.
func next(rotated []int) int {
	if len(rotated) == 0 {
		return 1
	}
	return rotated[len(rotated)-1] + 1
}

// rotated lists the numbers of the files that were rotated away and are still there, ascending.
func rotated(path string) (numbers []int, err error) {
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

// open opens a file for reading, and nothing that a link in its place leads to.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/checkpoint/layout"
)

// Plain is a checkpoint that a script without the SDK has left.
type Plain struct {
	Dir  string // relative to the root of the Blobs
	Step int64
	// Samples is what the script says in layout.Complete, as samples=<N>; -1 if it does not.
	Samples int64
	// Whole: Dir is the generation's own directory, which holds no step
	// directories. Its files do not say which step they are of, so Step counts on
	// from the step before.
	Whole bool
}

// Search says what plain checkpoint to look for.
type Search struct {
	Dir   string // the generation's directory, relative to the root of the Blobs
	Since int64  // only later steps count; -1 for any
	// Ended: every worker has exited after it was asked to. Only then do files
	// without a step directory count as a checkpoint.
	Ended bool
}

// FindPlain returns the newest complete plain checkpoint in a generation's
// directory, if there is one: step-<N>/ with a COMPLETE in it, or the whole
// directory where no step-<N>/ is. A directory that is not there holds none.
func FindPlain(b Blobs, s Search) (Plain, bool, error) {
	entries, err := list(b, s.Dir)
	if err != nil {
		return Plain{}, false, err
	}
	newest, steps, files := Plain{Step: s.Since, Samples: -1}, false, false
	for _, e := range entries {
		step, isStep := parseStep(e)
		steps = steps || isStep
		files = files || saved(e)
		if !isStep || step <= newest.Step {
			continue
		}
		dir := path.Join(s.Dir, e.Name)
		within, errList := list(b, dir)
		if errList != nil {
			return Plain{}, false, errList
		}
		if hasFile(within, layout.Complete) {
			newest = Plain{Dir: dir, Step: step}
		}
	}
	if newest.Dir != "" {
		newest.Samples, err = samplesOf(b, newest.Dir)
		return newest, err == nil, err // found, unless it vanished meanwhile
	}
	if s.Ended && files && !steps {
		return Plain{Dir: s.Dir, Step: s.Since + 1, Samples: -1, Whole: true}, true, nil
	}
	return Plain{}, false, nil
}

// maxComplete bounds what is read of layout.Complete: one line is of interest.
const maxComplete = 4 << 10

// samplesOf reads what a plain script says of its position in the data: a line
// samples=<N> in layout.Complete. -1: it says nothing, or nothing that can be read.
func samplesOf(b Blobs, dir string) (int64, error) {
	f, err := b.Open(path.Join(dir, layout.Complete))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path.Join(dir, layout.Complete), err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxComplete))
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("read %s: %w", path.Join(dir, layout.Complete), err)
	}
	for line := range strings.Lines(string(text)) {
		digits, ok := strings.CutPrefix(strings.TrimSpace(line), "samples=")
		if n, err := strconv.ParseUint(digits, 10, 63); ok && err == nil {
			return int64(n), nil //nolint:gosec // 63 bits fit
		}
	}
	return -1, nil
}

// list is Blobs.List where a directory that is not there is an empty one.
func list(b Blobs, dir string) ([]Entry, error) {
	entries, err := b.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return entries, nil
}

// parseStep reads the number of an entry that is the directory of a step.
func parseStep(e Entry) (int64, bool) {
	if e.Kind != Directory {
		return 0, false
	}
	return layout.ParseStep(e.Name)
}

func hasFile(entries []Entry, name string) bool {
	for _, e := range entries {
		if e.Name == name && e.Kind == Regular {
			return true
		}
	}
	return false
}

// saved tells a script's own files from ours and from what is being written.
func saved(e Entry) bool {
	return e.Name != layout.Manifest && !strings.HasPrefix(e.Name, ".")
}

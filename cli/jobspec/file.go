package jobspec

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/yamltext"
)

// maxFile bounds a job file; one beyond it is something else by mistake.
const maxFile = 1 << 20

// file is a job file that has been read: a draft, the lines of its keys, and what is wrong with it.
type file struct {
	name   string // for messages
	draft  *draft
	lines  map[string]int // by key
	faults []lineFault
}

// lineFault is a fault in a line of a file.
type lineFault struct {
	line int // 0 = in none
	text string
}

// Error implements error.
func (f lineFault) Error() string { return f.text }

// FromFile returns the spec that a job file describes; "-" is stdin. All faults come at once.
// Relative paths are taken from the folder of the file.
func FromFile(path string, use Use) (cluster.Spec, error) {
	in, base := os.Stdin, "."
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return cluster.Spec{}, fault.Usage("open job file %s: %w", path, fault.Reason(err))
		}
		defer f.Close()
		in, base = f, filepath.Dir(path)
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return cluster.Spec{}, fmt.Errorf("find folder of %s: %w", path, err)
	}
	f, err := readFile(in, filepath.Base(path))
	if err != nil {
		return cluster.Spec{}, err
	}
	spec := f.draft.spec
	if spec.Env, err = submitterEnvironment(f.draft.env); err != nil {
		f.report(err)
		return spec, f.err()
	}
	if spec, err = complete(spec, base); err != nil {
		return spec, err
	}
	f.check(spec, use)
	return spec, f.err()
}

// readFile reads a job file, strictly. What is wrong with single keys is in the file's faults.
func readFile(r io.Reader, name string) (*file, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fault.Usage("read %s: %w", name, fault.Reason(err))
	}
	if len(text) > maxFile {
		return nil, fault.Usage("%s: a job file has at most %d bytes", name, maxFile)
	}
	const example = "as in: command: [python, train.py]"
	doc, err := yamltext.Read(text)
	switch {
	case errors.Is(err, yamltext.ErrEmpty):
		return nil, fault.Usage("%s: %w; give at least the command, %s", name, err, example)
	case errors.Is(err, yamltext.ErrSeveral):
		return nil, fault.Usage("%s: %w; submit each job from its own", name, err)
	case err != nil:
		return nil, fault.AsUsage(yamltext.Fault(name, err))
	case doc.Kind != yamltext.Map:
		return nil, fault.Usage("%s:%d: write keys and values, %s", name, doc.Line, example)
	}
	f := &file{name: name, draft: newDraft(), lines: map[string]int{}}
	for _, e := range doc.Entries() {
		f.take(e)
	}
	return f, nil
}

func (f *file) take(e yamltext.Entry) {
	x, known := fieldOfKey(e.Key)
	switch first, repeated := f.lines[e.Key]; {
	case repeated:
		f.fault(e.Line, "%s is given twice, first in line %d", e.Key, first)
		return
	case !known:
		f.fault(e.Line, "unknown key %.40q: use %s", e.Key, strings.Join(keys(), ", "))
		return
	}
	f.lines[e.Key] = e.Line
	for _, err := range fault.Each(x.kind.file(f.draft, e.Value)) {
		if placed, ok := errors.AsType[lineFault](err); ok {
			f.faults = append(f.faults, placed)
		} else {
			f.fault(e.Value.Line, "%s: %s", e.Key, err)
		}
	}
}

func (f *file) fault(line int, format string, args ...any) {
	f.faults = append(f.faults, lineFault{line, fmt.Sprintf(format, args...)})
}

// check tries what can be tried of a spec. A key that was refused has been reported: what it
// left unset would be a second fault.
func (f *file) check(spec cluster.Spec, use Use) {
	refused := map[string]bool{}
	for _, x := range f.faults {
		for key, line := range f.lines {
			if line == x.line {
				refused[key] = true
			}
		}
	}
	for _, e := range fault.Each(prepare(spec, len(f.faults) > 0 || use == DryRun)) {
		if where, ok := fieldOf(e.Error()); !ok || !refused[where.key] {
			f.report(e)
		}
	}
}

// report adds a fault that was found elsewhere, at the line of its key.
func (f *file) report(err error) {
	where, _ := fieldOf(err.Error())
	f.fault(f.lines[where.key], "%s", inWords(err.Error(), func(x field) string { return x.key }))
}

// err joins the faults in the order of their lines.
func (f *file) err() error {
	slices.SortStableFunc(f.faults, func(a, b lineFault) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, x := range f.faults {
		where := f.name
		if x.line > 0 {
			where = fmt.Sprintf("%s:%d", f.name, x.line)
		}
		all = append(all, fmt.Errorf("%s: %s", where, x.text))
	}
	return fault.AsUsage(errors.Join(all...))
}

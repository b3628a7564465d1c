package trace

import (
	"errors"
	"fmt"
	"slices"
)

// Fault is what is wrong with one cell, or with one line as a whole (Field empty).
type Fault struct {
	File   string
	Line   int // counted from 1, the header being line 1
	Field  string
	Value  string
	Reason string // what is wrong
	Remedy string // and what would be right
}

// Error puts the place first, so that editors can jump to it.
func (f *Fault) Error() string {
	what := f.Reason
	if f.Field != "" {
		what = fmt.Sprintf("%s %.60q: %s", f.Field, f.Value, f.Reason)
	}
	return fmt.Sprintf("%s:%d: %s; %s", f.File, f.Line, what, f.Remedy)
}

// maxFaults bounds how many faults of one file are reported: the first few say
// what is wrong with it as well as a million would.
const maxFaults = 10

// faults collects what is wrong with one file.
type faults struct {
	file string
	list []error
	more int
}

func (f *faults) add(fault Fault) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	fault.File = f.file
	f.list = append(f.list, &fault)
}

// has reports whether a cell has a fault already: what is no value is in no order either.
func (f *faults) has(line int, field string) bool {
	return slices.ContainsFunc(f.list, func(err error) bool {
		var fault *Fault
		return errors.As(err, &fault) && fault.Line == line && fault.Field == field
	})
}

func (f *faults) err() error {
	if f.more > 0 {
		return errors.Join(append(f.list, fmt.Errorf("%s: and %d more faults", f.file, f.more))...)
	}
	return errors.Join(f.list...)
}

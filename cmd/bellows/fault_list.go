package main

import (
	"errors"
	"strings"
)

// faultList are all that is wrong with something, so that it is said at once.
type faultList []error

// Error returns a line for each.
func (f faultList) Error() string {
	lines := make([]string, len(f))
	for i, err := range f {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns them.
func (f faultList) Unwrap() []error { return f }

// add notes what is wrong, which may be several things, or nothing.
func (f *faultList) add(err error) {
	if several, ok := errors.AsType[faultList](err); ok {
		*f = append(*f, several...)
	} else if err != nil {
		*f = append(*f, err)
	}
}

// err is nil if nothing is wrong.
func (f faultList) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

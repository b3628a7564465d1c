package fault

import (
	"errors"
	"strings"
)

// List is everything that is wrong with an input. The zero value is empty.
type List []error

// Error returns a line for each fault.
func (f List) Error() string {
	lines := make([]string, len(f))
	for i, err := range f {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (f List) Unwrap() []error { return f }

// Add takes an error, the faults of another list, or nil, which adds none.
func (f *List) Add(err error) {
	if several, ok := errors.AsType[List](err); ok {
		*f = append(*f, several...)
	} else if err != nil {
		*f = append(*f, err)
	}
}

// Usage adds a fault of usage.
func (f *List) Usage(format string, args ...any) { f.Add(Usage(format, args...)) }

// Err returns the list, or nil where nothing is wrong.
func (f List) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Each takes joined errors apart, however deep they are joined.
func Each(err error) []error {
	var joined interface{ Unwrap() []error }
	if err == nil {
		return nil
	}
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Each(e)...)
	}
	return all
}

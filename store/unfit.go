package store

import (
	"errors"
	"fmt"
)

// ErrUnfit marks errors that a retry does not fix: an operator has to change
// settings or data first, as the error says.
var ErrUnfit = errors.New("settings or data that do not fit")

// unfitError is ErrUnfit with the text of the error that it wraps.
type unfitError struct{ error }

// Is supports errors.Is.
func (unfitError) Is(target error) bool { return target == ErrUnfit }

// Unwrap returns the wrapped error.
func (e unfitError) Unwrap() error { return e.error }

// Unfit marks an error as ErrUnfit and keeps its text.
func Unfit(err error) error { return unfitError{err} }

// Unfitf formats an error that is marked as ErrUnfit.
func Unfitf(format string, args ...any) error { return Unfit(fmt.Errorf(format, args...)) }

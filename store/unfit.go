package store

import (
	"errors"
	"fmt"
)

// ErrUnfit is in errors that trying again does not mend: a person has to change
// settings or data first, as the error says.
var ErrUnfit = errors.New("settings or data that do not fit")

// unfitError is ErrUnfit, and reads as what is wrong.
type unfitError struct{ error }

// Is implements what errors.Is asks for.
func (unfitError) Is(target error) bool { return target == ErrUnfit }

// Unwrap returns what is wrong.
func (e unfitError) Unwrap() error { return e.error }

// Unfit marks an error as ErrUnfit; it reads as before.
func Unfit(err error) error { return unfitError{err} }

func unfit(format string, args ...any) error { return Unfit(fmt.Errorf(format, args...)) }

package fault

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// usageError is an error in a flag, an argument, a variable or a file of settings.
type usageError struct{ error }

// Unwrap returns the error that says it.
func (e usageError) Unwrap() error { return e.error }

// Usage makes an error of usage: the program ends with the status for wrong input.
func Usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// AsUsage makes an error one of usage. A nil error stays nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// IsUsage reports whether an error is one of usage.
func IsUsage(err error) bool {
	_, ok := errors.AsType[usageError](err)
	return ok
}

// OfFlag returns what is wrong with a flag in words for people: pflag reports bad numbers
// and times with the name of the function or package that refused them.
func OfFlag(err error) string {
	text := err.Error()
	for _, r := range [][2]string{
		{`strconv.ParseInt: parsing `, `not a whole number: `},
		{`strconv.Atoi: parsing `, `not a whole number: `}, // in a list
		{`strconv.ParseFloat: parsing `, `not a number: `},
		{`strconv.ParseBool: parsing `, `not true or false: `},
	} {
		text = strings.Replace(text, r[0], r[1], 1)
	}
	const remedy = "use a time with its unit, as in 90s, 15m or 1h30m"
	if strings.HasPrefix(text, "time: ") {
		return remedy
	}
	if before, _, isTime := strings.Cut(text, ": time: "); isTime {
		return before + ": " + remedy
	}
	return text
}

// Reason returns what the kernel says, without the path: the message that it becomes a part of has it.
func Reason(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// remedied is an error with a text of its own, which says what the person can do about it.
type remedied struct {
	error
	text string
}

// Error returns the text.
func (e remedied) Error() string { return e.text }

// Unwrap returns the error.
func (e remedied) Unwrap() error { return e.error }

// WithRemedy returns an error that errors.Is finds as err, and that reads as text.
func WithRemedy(err error, text string) error { return remedied{err, text} }

// Exit ends the program with a status and without a message: what there is to say has been said.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

package api

import (
	"errors"
	"fmt"
)

// Code says what kind of answer an Error is, for programs.
type Code string

// The kinds of errors.
const (
	Invalid     Code = "invalid"     // the request itself; the message says what would be right
	Forbidden   Code = "forbidden"   // not the caller's to do
	NotFound    Code = "not_found"   // no such job or generation
	InUse       Code = "in_use"      // the name, or the request id, belongs to something else
	Limited     Code = "limited"     // more than a user may have, or than etcd has room for
	Unavailable Code = "unavailable" // the agent cannot reach etcd now; asking again may help
	Internal    Code = "internal"    // a fault of the agent's
)

// Error is an answer that is not the one asked for. The message names the remedy.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Fault makes an error of a message.
func Fault(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of an error that came from a server, or "" if it did not.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Permanent makes an error one that lasts until an operator removes its cause: see Lasts.
func Permanent(err error) error { return permanent{err} }

// permanent is an error of reaching an agent that lasts until an operator removes its cause.
type permanent struct{ error }

// Unwrap returns the cause.
func (p permanent) Unwrap() error { return p.error }

// Lasts reports whether the same question is of no use again soon. A node that
// knows of no such job may have to hear of it first, a bound on connections has
// room again when other readers end, and an agent that starts or ends can break
// an answer off anywhere: an error that is not known to last does not.
func Lasts(err error) bool {
	switch CodeOf(err) {
	case Invalid, Forbidden, InUse, Internal:
		return true
	case NotFound, Unavailable, Limited:
		return false
	}
	_, ok := errors.AsType[permanent](err)
	return ok
}

package api

import (
	"crypto/rand"
	"strings"
)

const requestIDBytes = 26 // of base32: 130 bits, unique

// NewRequestID makes the identifier of a request: 26 random characters of base32.
func NewRequestID() string { return strings.ToLower(rand.Text()) }

// CheckRequestID says what is wrong with the identifier of a request; nil = nothing.
func CheckRequestID(id string) *Error {
	ok := len(id) == requestIDBytes && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
	if !ok {
		return Fault(Invalid, "request id %.40q: use %d characters of lower-case base32", id, requestIDBytes)
	}
	return nil
}

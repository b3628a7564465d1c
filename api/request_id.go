package api

import (
	"crypto/rand"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

const (
	requestIDBytes = 26 // of base32: 130 bits, unique
	suffixBytes    = 6  // of a job's identifier, taken from the request's
)

// NewRequestID makes the identifier of a request: 26 random characters of base32.
func NewRequestID() string { return strings.ToLower(rand.Text()) }

func checkRequestID(id string) *Error {
	ok := len(id) == requestIDBytes && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
	if !ok {
		return fault(Invalid, "request id %.40q: use %d characters of lower-case base32", id, requestIDBytes)
	}
	return nil
}

// jobID is the identifier of the job that a request submits: the same request, the same job.
func jobID(name, requestID string) cluster.JobID {
	return cluster.JobID(name + "-" + requestID[:suffixBytes])
}

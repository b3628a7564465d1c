// Package socketpath knows where the socket of an agent is: the system's, and each user's own.
//
// It promises that a user's own socket lies in a directory that only that user can write to, or
// that Trusted says what to do about it.
package socketpath

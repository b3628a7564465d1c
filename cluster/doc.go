// Package cluster is the vocabulary of Bellows: the values that every other
// package speaks in, and their validation.
//
// It promises to hold no behaviour beyond that. Everything here is a plain
// value, safe to copy and to compare, without I/O, clocks or goroutines; the
// JSON field names are part of the etcd record format (docs/keys.md).
package cluster

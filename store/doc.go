// Package store is the client of etcd as Bellows uses it: it executes record.Txn,
// lists and watches records, keeps leases and elects a leader. Package
// store/server runs an etcd and administers it.
//
// It promises that every call ends in bounded time and reports when the outcome of
// a transaction is not known (record.Unknown) instead of guessing; that reads are
// linearizable and of one revision; that a watch delivers whole transactions in
// revision order and, after an interruption, either continues or reports that the
// history was compacted; and that a lease counts from the moment a renewal was
// sent, on a clock that does not stop while the machine sleeps. The package knows
// the meaning of two kinds of records only: the cluster's meta record and the
// leaders' keys.
package store

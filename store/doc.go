// Package store is etcd as Bellows uses it: a thin shell that executes
// record.Txn, lists and watches records, keeps leases, elects a leader, and
// starts an embedded server where nobody wants to run one.
//
// It promises that every call ends in bounded time, and says when it does not
// know what became of a transaction (record.Unknown) instead of guessing; that
// reads are linearizable and of one revision; that a watch delivers whole
// transactions in revision order and either goes on after an interruption or
// says that history was compacted; and that a lease counts from the moment a
// renewal was sent, on a clock that does not stop while the machine sleeps.
// Nothing here knows what the records mean, but for the cluster's meta record
// and the leaders' keys.
//
// Close clients before servers: a server waits for its clients' streams.
//
// ADR 25 says what a server that has no data asks before it begins.
package store

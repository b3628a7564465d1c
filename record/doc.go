// Package record is the cluster's state as it lies in etcd: the keys, the JSON
// values, and transactions as values. See docs/keys.md for the same as a table.
//
// It promises that every subtree has one writer: agents write below
// nodes/<node>/ (but for grants and cordon), the operator's process writes
// meta and paused, the leader writes everything else.
// Every transaction of the leader compares the leader's key, so that a deposed
// leader's write never lands, and the record that it changes.
//
// The package is pure: Memory is an etcd for tests and for the simulator, with
// etcd's revisions, leases, transactions and watches, and without its I/O;
// Mirror turns a listing and a stream of changes into typed values.
//
// Read it in this order: how keys are named and texts cut (place.go, cut.go), the records
// (job.go, node.go, checkpoint.go, ack.go), the mirror's views (mirror.go), the table of
// records (table.go), and how a change is taken in (apply.go).
//
// ADR 1 says why there is one key for each fact, ADR 26 why events ride in
// transactions, ADR 38 why plans carry a nonce.
package record

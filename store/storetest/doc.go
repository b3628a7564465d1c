// Package storetest is the suite that both the real etcd, through store, and
// record.Memory have to pass, so that the coordinator and the simulator can rely on
// record.Memory.
//
// Run states the semantics as cases; Agree runs random histories on two subjects
// and compares every outcome, listing and change. Only the suite writes to a
// subject while it runs.
package storetest

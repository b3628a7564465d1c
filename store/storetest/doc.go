// Package storetest holds the one suite that both the real etcd, through store,
// and record.Memory have to pass: what coordinator and simulator rely on is what
// etcd does.
//
// Run states the semantics as cases; Agree runs random histories on two subjects
// and compares every outcome, listing and change. A subject's keys are its own,
// and nobody else writes to it while the suite runs.
package storetest

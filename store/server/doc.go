// Package server runs an etcd inside this process, alone or as one member of
// several, and administers it: its members, its snapshots, its disk space. Package
// store is the client; this package is what only the operator of an etcd needs.
//
// It promises that a start that cannot succeed is an error that names the remedy,
// and does not end the process or serve the wrong data: a data directory belongs
// to one cluster, one member and one process at a time. A member that has lost its
// data never founds a second cluster: it asks all other members first. A snapshot
// file is complete and verified, or it does not exist; a restore never overwrites
// data.
//
// ADR 25 describes what a server without data asks before it starts.
//
// Close clients before servers: a server waits for its clients' streams.
package server

// Package recordtest makes invalid records, for the tests of all their readers:
// what other processes wrote is hostile input.
//
// Wrong changes the values and keys of real records, deterministically by its random
// source: fields are left out, are null, of another type, negative, huge or absurdly
// long, lists are empty or name things twice, and a record names what belongs to
// another job or node. Sample is a cluster's records to begin with.
package recordtest

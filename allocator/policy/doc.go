// Package policy holds the allocation policies, one a file; table.go is the list.
//
// A policy is a pure function from a snapshot to one decision a job. All of
// them promise what the property suite checks on random clusters: an answer
// that allocator.Run accepts and package place can place, which does not depend
// on the order of jobs and nodes in the question, is the same each time, and
// proposes no further change once it is in force. The comment of each policy's
// type says what it optimises, which paper it is from and how it reads the paper's
// details; docs/policies.md compares them.
package policy

// Package allocator asks policies for the sizes of jobs and checks their answers.
//
// A Policy is a pure function from an Input (a snapshot of nodes and jobs) to an
// Output (how many workers each job gets). Run calls one and checks its
// answer: one that breaks a rule is an error, and what is in force stays. Policies decide counts; package place turns counts into devices.
//
// ADR 2 says why placement is apart, ADR 16 which world sizes a job may list.
package allocator

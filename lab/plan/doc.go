// Package plan answers which node types to run for a set of jobs, and when: the
// optimiser of allocator/capacity in virtual time, asked again at every arrival, every
// end, and at the latest after each horizon (Jahani et al., section III).
//
// A Catalogue says what can be rented or switched on, a Demand what a job takes on each
// GPU model. Run goes through time and returns the bill, the jobs that are late, and
// which nodes ran when; Curve does so for several weights of lateness. Everything is a
// function of its arguments: the same files give the same plan.
package plan

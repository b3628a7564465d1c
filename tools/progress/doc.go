// Command progress runs a tier of this module's tests and says how they go: a
// line for each test that failed, was skipped or took long, and for each test of
// the packages that are slow as a whole, when it ends; the whole output of each
// failed test; every minute without a line, which tests are running; at the end
// the failed tests once more, and how many tests passed and failed. In `make test`, a
// few tests of processes that fail are run again, alone, when all others have ended; those that pass three times
// in a row are reported as unsteady and fail nothing (again.go).
//
// Nothing that the tests have started outlives them, also when they are interrupted or
// make is killed (keeper.go).
//
// The tiers are in tiers.go; `make test` runs all others beside the tests of e2e, in three parts. It is what `make quick`, `make test` and `make soak`
// run. Its exit status is 0 if every step of the tier passed, else 1.
package main

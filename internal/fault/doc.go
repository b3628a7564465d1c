// Package fault is how the command line says what is wrong with what a person gave it.
//
// It promises that an error made here says which value is refused and what to write instead,
// that all faults of one input can be reported at once, and that a caller can tell a fault of
// usage, which only a person can mend, from a failure that a retry may mend.
package fault

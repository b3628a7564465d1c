// Package arch is the rules of this house as tests: who may import whom, what
// pure code may not touch, how large things may grow and what must be
// documented. It promises that every rule is a table or a short function here,
// that each can be seen to fail on a small bad sample, and that a finding says
// where, which rule, and what to do instead.
//
// The sources are read through package os and not through the go command, so
// that the test cache notices every change to them. The table of packages is in
// policy.go; tools/progress reads in it which packages are pure.
package arch

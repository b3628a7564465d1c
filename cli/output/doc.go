// Package output writes results for people and for programs.
//
// It promises that a table fits the terminal that it is written to, that JSON and YAML have the
// same fields in the same order, and that no text from elsewhere (a worker's line, a reason in a
// record, a name) can move the cursor of a terminal, rename its window or turn the direction of
// its text. What a table says is its caller's business.
package output

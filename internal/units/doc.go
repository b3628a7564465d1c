// Package units writes and reads numbers as people do: counts of things, sizes in bytes,
// durations, and moments that are given as a time or as how long ago they were.
//
// It promises that what it writes is short and says its unit, and that what it refuses to read
// is quoted in the error together with an example of what it takes.
package units

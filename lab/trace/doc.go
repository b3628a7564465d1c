// Package trace reads what happened elsewhere: job traces of public clusters
// and the speed profiles of their models, as values that a simulation can run.
//
// It is strict, because a trace that is read wrongly gives a figure that is
// believed. A cell that is missing, negative or not a number, a job that is
// named twice, a file that is not sorted by submission, a deadline before its
// submission, a speed curve with holes or one that falls with more workers:
// each is a Fault that names file, line, column, value and remedy, and all
// faults of a file are reported at once, up to a bound. Nothing is mended
// silently; a caller that wants a falling curve flattened has to say so.
//
// Files are CSV with a header, gzipped or not; the header alone says which
// format it is. The caller opens the file: the package reads from an io.Reader.
package trace

// Package ranklog is the one owner of the files in which what a rank prints is kept.
//
// A rank of a generation writes to one log, rank-<r>.log in the folder of its
// generation. When that is full it becomes rank-<r>.log.<n>, the n-th file of the
// rank, and a new one is begun; only the newest of those is kept. Beside each file
// lies rank-<r>.times.<n>, which says when what stands in it was written.
//
// The package promises that a Position, once given, stays true when logs are
// rotated and when agents restart; that a Reader tells of what is missing; and that
// a Writer never fails its caller: what a disk does not take is dropped, counted, and
// told in the log itself once it can be.
package ranklog

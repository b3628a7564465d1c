// Package logprogress reads from what a rank prints how far its training is, for
// scripts that do not say so by Bellows's module: by a pattern of the job's owner, or,
// where the owner asks for it, from the progress bars of common trainers.
//
// A Reader never looks at more than the first few KiB of a line and at no more than some
// lines a second, and its patterns take time in proportion to the line: what a job
// prints cannot keep it busy. What it tells of one rank never goes backwards.
package logprogress

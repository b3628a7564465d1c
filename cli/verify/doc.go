// Package verify finds out whether a training script learns the same when it is rescaled: for `bellows verify`.
//
// It promises to run the script's processes as an agent would, in worlds on this machine: once
// never rescaled, and once through a schedule of sizes, each resuming from what the one before
// has saved. What it compares was observed by hooks in the module's file bellows_verify.py,
// which exist under verify only. The comparison is a function of what was observed; what the
// worlds leave is removed, and no process of theirs outlives the run.
package verify

// Package place turns counts into devices: which job gets which devices of
// which nodes.
//
// A job whose count is unchanged stays where it is; every other job gets as few
// nodes as possible, of one location where that takes no more, on the fullest nodes that
// fit, and inside a node the smallest subtree of its topology (group, NUMA node) that has enough
// devices, and in it a block aligned like a buddy allocator's, so that power-of-two jobs
// leave power-of-two holes. Where that leaves a job apart, Repair moves others that run, if
// it pays. Place knows only the target: devices that another job is
// about to release count as free, and the caller starts no job on them before
// they are. It is a pure function, and places all jobs whenever that is possible
// (Fits says exactly when).
package place

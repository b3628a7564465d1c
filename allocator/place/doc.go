// Package place turns counts into devices: which job gets which devices of
// which nodes.
//
// A job whose count is unchanged stays where it is; every other job gets as few
// nodes as possible, on the fullest nodes that fit, and inside a node a block
// aligned like a buddy allocator's, so that power-of-two jobs leave
// power-of-two holes. Place knows only the target: devices that another job is
// about to release count as free, and the caller starts no job on them before
// they are. It is a pure function, and places all jobs whenever that is possible
// (Fits says exactly when).
package place

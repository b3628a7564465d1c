// Package goodput knows how fast a job trains with how many workers.
//
// Without measurements that is the default model of Hu et al.; with some it is
// a curve through them. Speeds are relative to one worker, never fall with more
// workers, and are pure functions of what was observed, in whatever order.
package goodput

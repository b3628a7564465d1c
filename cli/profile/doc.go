// Package profile measures how fast a job is with several numbers of workers: for `bellows profile`.
//
// It promises to go the way of every other job: it submits one, scales it from size to size
// while it trains, and stops it; what was measured is what the cluster has recorded, and stays
// for the next job of its kind. It takes devices that are idle, as far as can be told
// beforehand, and ends the job in bounded time, whatever becomes of it.
package profile

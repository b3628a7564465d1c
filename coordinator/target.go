package coordinator

import "github.com/bellows-ml/bellows/cluster"

// target is what the last decision granted a job: devices, or none and why.
type target struct {
	cluster.Allocation
	reason string
	model  string // that its devices were to be of; empty = any
	// moves: it runs, and goes to other devices so that another job is closer together.
	moves bool
}

// Workers returns how many workers the job gets.
func (t target) Workers() int { return t.Allocation.Workers() }

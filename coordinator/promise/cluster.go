package promise

import (
	"time"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Cluster is what promises are made from.
type Cluster struct {
	Now       time.Time // by the wall clock
	Policy    string
	Sizes     func([]int) []int // of the sizes that a job may have, those by which the policy plans; nil = it promises nothing
	Interval  time.Duration     // from one decision to the next
	LostAfter time.Duration     // from the loss of a node until its workers are certainly dead
	Paused    record.Versioned[record.Paused]

	Alive   int    // nodes
	PerNode int    // devices of the largest of these
	Model   string // of the devices that promises are planned on; empty = there is one alone
	Devices int    // usable ones of that model
	Held    int    // of these, held by jobs without a promise that may keep them for long

	Plan record.Promises
	Jobs map[cluster.JobID]Job // of the plan, but for those that have ended
}

// Job is one job that is promised a deadline, or asks for one.
type Job struct {
	Spec     record.Submitted
	View     allocator.JobView // as decisions see it, on devices of the cluster's model, with the workers that it is about to have
	Usable   int               // devices that can be given to it
	Measured bool              // its speed is known by measurement: of it, or of jobs of its kind
	Barred   []cluster.NodeID  // nodes with devices of that model that cannot run it
	// Ladder is the job as if it could have any size that its script could; no sizes = not known.
	Ladder allocator.JobView
}

// Standing reports whether any job was promised a deadline that can still be kept.
func (c *Cluster) Standing() bool { return c.Sizes != nil && Standing(c.Plan) }

// Standing reports whether a plan holds a promise that can still be kept.
func Standing(plan record.Promises) bool {
	for id := range plan.Jobs {
		if _, ok := plan.Standing(id); ok {
			return true
		}
	}
	return false
}

// Entry is what a plan has for a job from now on; nil = nothing.
func Entry(plan record.Promises, id cluster.JobID, now time.Time) *allocator.Promise {
	p, ok := plan.Standing(id)
	if !ok {
		return nil
	}
	slot, left := plan.At(now)
	return &allocator.Promise{Due: p.Due, Profile: p.Profile.After(slot), First: left, Slot: time.Duration(plan.Slot)}
}

// Ladder are the numbers of workers that a job's script could have on this cluster.
func (c *Cluster) Ladder(spec cluster.Spec) []int {
	if len(spec.Sizes) > 0 {
		return spec.Sizes
	}
	spec.MinWorkers, spec.MaxWorkers = 1, min(max(1, c.plannable()), cluster.MaxWorldSize)
	return spec.WorldSizes()
}

// plannable is how many devices there are to plan with.
func (c *Cluster) plannable() int { return max(0, c.Devices-c.Held) }

// moment is a time for people.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

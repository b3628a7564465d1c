package coordinator

import (
	"maps"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
	"github.com/bellows-ml/bellows/rendezvous"
)

// job is what the records say of a job with its newest generation, if it has one.
type job struct {
	*record.JobView
	gen   *record.GenerationView // never nil
	roll  rendezvous.Roll        // what the members of its world have said
	sizes []int                  // the world sizes that it may have; not to be changed
	has   cluster.Allocation     // what its live world holds

	unusable  string      // why no decision can be made about it; empty = it can
	demands   string      // what it demands of nodes, as text; empty = nothing
	fault     string      // how its world is broken; empty = it is not
	ungranted []deviceRef // devices of its live world that are not granted yet
	regrants  []record.Op // what makes its grants those of its live world; not to be changed

	// Read off for the sums over all jobs.
	owner     uint32
	resumable bool // it has ended with a checkpoint that it could be resumed from
	kept      kept // what is kept of it, if it has ended
}

// kept is how much is kept of jobs that have ended.
type kept struct{ jobs, bytes int }

func (k *kept) add(other kept) { k.jobs, k.bytes = k.jobs+other.jobs, k.bytes+other.bytes }

// resumable reports whether a job has ended with a checkpoint that it could be
// resumed from. It is kept for longer, with what it takes to resume it: its owner
// may come back on Monday to a job that failed on Friday.
func resumable(r *record.JobView) bool {
	switch r.State.Value.Phase {
	case cluster.Stopped, cluster.Failed:
		return r.Committed.Exists() || len(r.Checkpoints)+len(r.Bad) > 0
	case cluster.Queued, cluster.Starting, cluster.Running, cluster.Halting, cluster.Backoff, cluster.Held, cluster.Succeeded, cluster.Refused:
	}
	return false
}

func (j *job) state() record.State { return j.State.Value }

func (j *job) world() cluster.World { return j.gen.Plan.Value.World }

// unwanted reports whether the owner has asked to stop the job.
func (j *job) unwanted() bool { return j.Wanted.Exists() && !j.Wanted.Value.Run }

// number is the job's newest generation.
func (j *job) number() cluster.Generation { return j.state().Generation }

// deletedBefore reports whether a job that has ended is deleted before another: those
// that cannot be resumed are, and of equals the one that ended first.
func (j *job) deletedBefore(other *job) bool {
	if j.resumable != other.resumable {
		return other.resumable
	}
	return j.state().Since.Before(other.state().Since)
}

// trained returns how long the job has had workers, and the device time that is.
func (j *job) trained(now time.Time) (trained, service time.Duration) {
	s := j.state()
	trained, service = time.Duration(s.Trained), time.Duration(s.Service)
	if plan := j.gen.Plan.Value; s.Phase.Active() && !plan.At.IsZero() {
		so := max(0, now.Sub(plan.At))
		trained += so
		service += so * time.Duration(plan.World.Size())
	}
	return trained, service
}

// nextState is the job's state as it will be in another phase; everything that is not of the phase stays.
func (j *job) nextState(phase cluster.Phase, why reason.Reason, now time.Time) record.State {
	s := j.state()
	if s.Phase != phase {
		s.Since = now
	}
	if j.state().Phase == cluster.Running && phase != cluster.Running {
		s.Ran = cluster.Duration(j.Ran(now))
	}
	s.Phase, s.Reason, s.Waits, s.ReasonText, s.WaitsText = phase, why, nil, "", ""
	s.Next = time.Time{}
	s.Excluded = maps.Clone(s.Excluded)
	if j.state().Phase.Active() && (!phase.Active() || phase == cluster.Starting) { // its generation is over
		trained, service := j.trained(now)
		s.Trained, s.Service = cluster.Duration(trained), cluster.Duration(service)
	}
	return s
}

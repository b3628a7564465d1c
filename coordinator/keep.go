package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// DefaultKeepResumable bounds the jobs that are kept only to be resumed: a few
// megabytes of specs, states and checkpoints' names.
const DefaultKeepResumable = 1000

const (
	// keptGenerations is how many of a job's newest generations stay to be looked at.
	keptGenerations = 3
	// keptRescales bounds the history of a job that is rescaled for months.
	keptRescales = 200
	// resumableRescales is how much of that a job keeps that is kept only to be
	// resumed: enough to tell that its last generations had run.
	resumableRescales = 16
	// collectedAtOnce keeps one collection well below etcd's operations per transaction.
	collectedAtOnce = 32
)

// collect deletes what is too old to be looked at: the oldest generations, and
// what they cost. Agents then delete their own records of them.
func collect(in situation) *move {
	generations, rescales := cluster.Generation(keptGenerations), cluster.Generation(keptRescales)
	if in.state().Phase.Terminal() && !in.now.Before(lookedAt(in)) {
		generations, rescales = 0, resumableRescales
	}
	if len(in.Generations) <= int(generations) && len(in.Rescales) <= int(rescales) {
		return nil // most of the time, for most jobs
	}
	var ops []record.Op
	most := min(collectedAtOnce, in.cfg.MaxTxnOps)
	for _, g := range slices.Sorted(maps.Keys(in.Generations)) {
		if g+generations <= in.number() && len(ops) < most {
			ops = append(ops, record.DeletePrefix(record.GenerationPrefix(in.ID, g)))
		}
	}
	for _, g := range slices.Sorted(maps.Keys(in.Rescales)) {
		if g+rescales <= in.number() && len(ops) < most {
			ops = append(ops, record.Delete(record.RescaleKey(in.ID, g)))
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return &move{verb: "collect", job: in.JobView, then: ops}
}

// lookedAt is until when a job that has ended can be looked at with all that is
// recorded of it.
func lookedAt(in situation) time.Time {
	return in.state().Since.Add(in.cfg.Timing.Retention)
}

// expire deletes a job that ended long ago. Its checkpoints stay on disk.
func expire(in situation) *move {
	looked, end := lookedAt(in), lookedAt(in)
	if in.resumable {
		end = in.state().Since.Add(max(in.cfg.Timing.Retention, in.cfg.Timing.Resumable))
	}
	if in.now.Before(end) {
		if !in.now.Before(looked) {
			looked = end
		}
		in.wake(looked)
		return nil
	}
	return remove(in.job, "expire", "")
}

// expireFirst deletes the job that ended first of those that are kept only to be
// resumed, where there are too many of them.
func expireFirst(in situation) []*move {
	most := cmp.Or(in.cfg.KeepResumable, DefaultKeepResumable)
	if in.sums().resumable <= most {
		return nil // most of the time
	}
	var earliest *job
	count := 0
	for _, j := range in.jobs() {
		if !j.resumable || in.now.Before(lookedAt(about(in, j))) || leaving(in, j) {
			continue
		}
		count++
		if earliest == nil || j.state().Since.Before(earliest.state().Since) {
			earliest = j
		}
	}
	if count <= most {
		return nil
	}
	return []*move{remove(earliest, "expire", fmt.Sprintf(", and %d that could be resumed ended later", most))}
}

// leaving reports whether a job that has ended is being deleted, or still has grants:
// those of many nodes go in several transactions, and those that outlived the job
// would keep their devices.
func leaving(in situation, j *job) bool { return in.flying(j.ID) || len(in.nodes().granted[j.ID]) > 0 }

// remove deletes the records of a job that has ended.
func remove(j *job, verb, why string) *move {
	text := "records deleted: it ended at " + j.state().Since.String() + why
	if last := j.Committed.Value; j.Committed.Exists() {
		text += "; its last checkpoint stays in " + last.Dir
	}
	return &move{
		verb: verb, job: j.JobView,
		then: []record.Op{record.DeletePrefix(record.JobPrefix(j.ID))},
		note: Note{Job: j.ID, Text: text},
	}
}

// justEnded is for how long a job that has ended is not counted among those that are
// kept, and not deleted for them: `bellows run`, or a script that looks every minute
// or so, can still find how it ended, though its agent restarted just then.
const justEnded = 5 * time.Minute

// surplus counts a user's jobs that have ended, and knows the one to delete first.
type surplus struct {
	kept
	first *job
}

func (s *surplus) add(j *job) {
	s.kept.add(j.kept)
	if s.first == nil || j.deletedBefore(s.first) {
		s.first = j
	}
}

// tooMany reports whether more is kept of a user's jobs than the limits allow.
func tooMany(l record.Limits, has kept) bool {
	return has.jobs > l.KeptJobs || int64(has.bytes) > l.Bytes/2
}

// trim deletes a job of each user who has more that have ended than are kept. Those
// that ended just now are counted for themselves, so that each user has twice the
// limit at most. What is being deleted counts no longer: an answer that takes its
// time must not cost a job at each Step.
func trim(in situation) []*move {
	l := in.cfg.Limits
	if l == nil {
		return nil
	}
	over := map[uint32]*[2]surplus{} // of each user: what is kept, and what ended just now
	for uid, has := range in.sums().kept {
		if tooMany(*l, has) && !l.Exempts(uid) {
			over[uid] = &[2]surplus{}
		}
	}
	if len(over) == 0 {
		return nil // most of the time
	}
	for _, j := range in.jobs() {
		of := over[j.owner]
		if of == nil || j.kept.jobs == 0 || leaving(in, j) {
			continue
		}
		if until := j.state().Since.Add(justEnded); in.now.Before(until) {
			in.wake(until)
			of[1].add(j)
		} else {
			of[0].add(j)
		}
	}
	var out []*move
	for _, uid := range slices.Sorted(maps.Keys(over)) {
		for _, s := range over[uid] {
			if s.first != nil && tooMany(*l, s.kept) {
				out = append(out, remove(s.first, "trim", fmt.Sprintf(", and of its owner's as many as --user-kept-jobs and --user-bytes allow are kept: %d jobs, %d bytes",
					l.KeptJobs, l.Bytes/2)))
			}
		}
	}
	return out
}

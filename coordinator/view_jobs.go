package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// jobIndex returns the job index, with what has changed derived again.
func (v *view) jobIndex() *jobIndex {
	x := &v.byJob
	if x.every {
		x.every = false
		for _, id := range v.mirror.JobIDs() {
			x.stale[id] = true
		}
		for id := range x.all {
			x.stale[id] = true
		}
	}
	if len(x.stale) == 0 {
		return x
	}
	for id := range x.stale {
		if r := v.mirror.Job(id); r.Spec.Exists() && r.State.Exists() {
			x.set(id, v.read(r))
		} else {
			x.set(id, nil)
		}
	}
	clear(x.stale)
	return x
}

// jobs returns the jobs that have been admitted, sorted by identifier.
func (v *view) jobs() []*job {
	x := v.jobIndex()
	if x.roster == nil {
		x.roster = make([]*job, 0, len(x.all))
		for _, id := range v.mirror.JobIDs() {
			if j := x.all[id]; j != nil {
				x.roster = append(x.roster, j)
			}
		}
	}
	return x.roster
}

// find returns one of them, nil if it has not been admitted.
func (v *view) find(id cluster.JobID) *job { return v.jobIndex().all[id] }

// derivedSince returns the jobs that were derived again, or are gone, since this was last asked, sorted.
func (v *view) derivedSince() []cluster.JobID {
	x := v.jobIndex()
	out := x.derived
	x.derived = nil
	slices.Sort(out)
	return slices.Compact(out)
}

// sums returns what is summed up over all jobs.
func (v *view) sums() *sums {
	x := v.jobIndex()
	if x.sums != nil {
		return x.sums
	}
	x.sums = &sums{kept: map[uint32]kept{}, ungranted: map[deviceRef]cluster.JobID{}}
	for _, j := range v.jobs() {
		if j.resumable {
			x.sums.resumable++
		}
		if j.kept.jobs > 0 {
			sum := x.sums.kept[j.owner]
			sum.add(j.kept)
			x.sums.kept[j.owner] = sum
		}
		for _, d := range j.ungranted {
			x.sums.ungranted[d] = j.ID
		}
		if j.state().Phase.Active() {
			x.sums.ports = append(x.sums.ports, j.world().Master)
		}
	}
	return x.sums
}

// atFront reports whether the job is among the first of the queue.
func (v *view) atFront(id cluster.JobID) bool {
	x := v.jobIndex()
	if x.front == nil {
		queue := v.mirror.Queue()
		x.front = make(map[cluster.JobID]bool, min(len(queue), closelyExplained))
		for _, first := range queue[:min(len(queue), closelyExplained)] {
			x.front[first] = true
		}
	}
	return x.front[id]
}

// closelyExplained is how many jobs at the front of the queue are told the
// numbers behind their waiting whenever those change. All others learn only what
// does not change with every node and decision: a long queue would be written
// anew each time. Their place in it is derived where it is read.
const closelyExplained = 100

// named returns the job that has the name and has not ended.
func (v *view) named(name string) (cluster.JobID, bool) {
	x := v.jobIndex()
	if x.names == nil {
		x.names = make(map[string]cluster.JobID, len(x.all))
		for _, j := range v.jobs() {
			if own := j.Spec.Value.Name; !j.state().Phase.Terminal() && x.names[own] == "" {
				x.names[own] = j.ID
			}
		}
	}
	id, used := x.names[name]
	return id, used
}

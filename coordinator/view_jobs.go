package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// jobIndex is what the records say of the jobs that have been admitted, one by one and in sum.
type jobIndex struct {
	all     map[cluster.JobID]*job
	roster  []*job                                    // the same, sorted by identifier; nil = a job has come or gone
	stale   map[cluster.JobID]bool                    // to be derived again
	every   bool                                      // every job is
	members map[cluster.NodeID]map[cluster.JobID]bool // whose newest world has a member on the node
	derived []cluster.JobID                           // derived again, or gone, since that was last asked for
	front   map[cluster.JobID]bool                    // the first jobs of the queue; nil = not known
	sums    *sums                                     // nil = not known
	names   map[string]cluster.JobID                  // of jobs that have not ended; nil = not known
}

// sums are taken over all jobs.
type sums struct {
	shelved   int
	kept      map[uint32]kept             // what is kept of each user's jobs that have ended
	ungranted map[deviceRef]cluster.JobID // devices of live worlds that are not granted yet
	ports     []cluster.Endpoint          // of live generations
}

func newJobIndex() jobIndex {
	return jobIndex{all: map[cluster.JobID]*job{}, stale: map[cluster.JobID]bool{}, members: map[cluster.NodeID]map[cluster.JobID]bool{}}
}

// invalidate has one job derived again.
func (x *jobIndex) invalidate(id cluster.JobID) { x.stale[id] = true }

// invalidateAll has every job derived again.
func (x *jobIndex) invalidateAll() { x.every = true }

// invalidateMembers has the jobs derived again that have a member on the node.
func (x *jobIndex) invalidateMembers(n cluster.NodeID) {
	for id := range x.members[n] {
		x.stale[id] = true
	}
}

// set puts a job in the place of what was known of it; nil = it is gone.
func (x *jobIndex) set(id cluster.JobID, j *job) {
	old := x.all[id]
	if old == nil && j == nil {
		return
	}
	if old != nil {
		for _, a := range old.roll {
			delete(x.members[a.Node], id)
		}
	}
	switch {
	case j == nil:
		delete(x.all, id)
		x.roster = nil
	case old == nil:
		x.all[id], x.roster = j, nil
	default:
		*old = *j // the roster stays as it is
		j = old
	}
	if j != nil {
		for _, a := range j.roll {
			if x.members[a.Node] == nil {
				x.members[a.Node] = map[cluster.JobID]bool{}
			}
			x.members[a.Node][id] = true
		}
	}
	if x.front[id] || j != nil && j.state().Phase == cluster.Queued {
		x.front = nil
	}
	x.sums, x.names = nil, nil
	x.derived = append(x.derived, id)
}

// jobsIndex returns the job index, with what has changed derived again.
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
		if j.shelved {
			x.sums.shelved++
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

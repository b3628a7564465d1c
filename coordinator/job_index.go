package coordinator

import "github.com/bellows-ml/bellows/cluster"

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
	resumable int
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

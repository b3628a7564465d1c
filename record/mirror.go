package record

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Versioned is a record with the revisions that fence it. Mod is 0 while the record does not exist.
type Versioned[T any] struct {
	Value  T
	Create int64
	Mod    int64
	Size   int // bytes, as it is recorded
}

// Exists reports whether the record is there.
func (v Versioned[T]) Exists() bool { return v.Mod != 0 }

// NodeView is everything recorded below one node.
type NodeView struct {
	ID        cluster.NodeID
	Alive     Versioned[Alive]
	Inventory Versioned[Inventory]
	Fencing   Versioned[Fencing]
	Cordon    Versioned[Cordon]
	Asked     Versioned[Asked]
	Progress  Versioned[Progress]
	Told      map[uint64]Versioned[Event] // what the node tells, by slot
	Grants    map[cluster.JobID]Versioned[Grant]
	Next      map[cluster.JobID]Versioned[Next]
	Ready     map[cluster.JobID]Versioned[Ready]
	Requests  map[string]Versioned[Request]
	Acks      map[JobGen]*Acks
	Saved     map[JobGen]map[int64]Versioned[Saved]
	Offers    map[JobGen]map[int64]Versioned[Offer]
}

// Acks are a node's acknowledgements of one generation.
type Acks struct {
	Started Versioned[Started]
	Held    Versioned[Held]
	Failed  Versioned[Failed]
	Stopped Versioned[Stopped]
	Cleared Versioned[Cleared]
}

// JobView is everything recorded below one job.
type JobView struct {
	ID          cluster.JobID
	Spec        Versioned[Submitted]
	Wanted      Versioned[Wanted]
	State       Versioned[State]
	Generations map[cluster.Generation]*GenerationView
	Committed   Versioned[Checkpoint]
	Checkpoints map[int64]Versioned[Checkpoint]
	Bad         map[int64]Versioned[BadCheckpoint]
	Rescales    map[cluster.Generation]Versioned[Rescale]
	Speed       Versioned[Speed]
	unreadable  map[string]unreadable // records that are not as the rest of the view shows them, by key
}

// unreadable is a value of a known key that does not decode.
type unreadable struct {
	why string
	mod int64 // when it was written
}

// GenerationView is everything recorded below one generation.
type GenerationView struct {
	Plan   Versioned[Plan]
	Permit Versioned[Permit]
	Halt   Versioned[Halt]
	Fences map[cluster.NodeID]Versioned[Fence]
}

// Mirror is a typed view of the records, kept by Apply. Its zero value is
// not usable: call NewMirror. Maps of a view may be nil where nothing is
// recorded; reading those is fine. One goroutine owns a mirror.
type Mirror struct {
	Revision int64 // of the newest change applied
	Meta     Versioned[Meta]
	Leaders  map[string]Versioned[Leader] // by key
	Decision Versioned[Decision]
	Granted  Versioned[Granted]
	Promised Versioned[Promises]
	Paused   Versioned[Paused]
	Limits   Versioned[Limits]
	Told     map[uint64]Versioned[Event]              // what leaders tell, by slot
	Kinds    map[uint32]map[string]Versioned[JobKind] // by user
	Nodes    map[cluster.NodeID]*NodeView
	Jobs     map[cluster.JobID]*JobView
	told     int64            // revision of the newest event of all
	gone     map[string]int64 // deleted keys and when, so that an older write arriving late stays ignored

	nodeIDs []cluster.NodeID // sorted; nil = a node has come or gone since
	jobIDs  []cluster.JobID
}

// Node returns the node's view, an empty one if nothing is recorded.
func (m *Mirror) Node(id cluster.NodeID) *NodeView {
	if v := m.Nodes[id]; v != nil {
		return v
	}
	return &NodeView{ID: id}
}

// Job returns the job's view, an empty one if nothing is recorded.
func (m *Mirror) Job(id cluster.JobID) *JobView {
	if v := m.Jobs[id]; v != nil {
		return v
	}
	return &JobView{ID: id}
}

// Generation returns the generation's view, an empty one if nothing is recorded.
func (v *JobView) Generation(g cluster.Generation) GenerationView {
	if x := v.Generations[g]; x != nil {
		return *x
	}
	return GenerationView{}
}

// Scaled returns the job's spec with the bounds that its owner last asked for.
func (v *JobView) Scaled() cluster.Spec {
	s, w := v.Spec.Value.Spec, v.Wanted.Value
	s.MinWorkers, s.MaxWorkers = cmp.Or(w.MinWorkers, s.MinWorkers), cmp.Or(w.MaxWorkers, s.MaxWorkers)
	s.TimeLimit = cmp.Or(w.TimeLimit, s.TimeLimit)
	return s
}

// Batch returns the batch that the job may have: its owner's, without what ran out of memory.
func (v *JobView) Batch() cluster.BatchSize {
	b := v.Spec.Value.BatchSize
	if most := v.State.Value.BatchLimit; most > 0 {
		b.Max = max(b.Min, min(b.Max, most))
	}
	return b
}

// NodeIDs returns the nodes' identifiers, sorted. The list is the mirror's own: it must not be changed.
func (m *Mirror) NodeIDs() []cluster.NodeID {
	if m.nodeIDs == nil {
		m.nodeIDs = slices.Sorted(maps.Keys(m.Nodes))
	}
	return m.nodeIDs
}

// JobIDs returns the jobs' identifiers, sorted. The list is the mirror's own: it must not be changed.
func (m *Mirror) JobIDs() []cluster.JobID {
	if m.jobIDs == nil {
		m.jobIDs = slices.Sorted(maps.Keys(m.Jobs))
	}
	return m.jobIDs
}

// OldestKinds are the kinds of a user to delete so that one more of this name can be
// written: those beyond MaxKinds that were written first.
func (m *Mirror) OldestKinds(uid uint32, name string) []string {
	of := m.Kinds[uid]
	names := slices.Sorted(maps.Keys(of))
	names = slices.DeleteFunc(names, func(n string) bool { return n == name })
	slices.SortStableFunc(names, func(a, b string) int { return of[a].Value.At.Compare(of[b].Value.At) })
	return names[:max(0, len(names)-(MaxKinds-1))]
}

// DeletedAt returns the revision of a key's newest deletion, 0 if none is remembered.
func (m *Mirror) DeletedAt(key string) int64 { return m.gone[key] }

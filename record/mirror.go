package record

import (
	"encoding/json"
	"errors"
	"fmt"
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

// JobGen names one generation of one job.
type JobGen struct {
	Job        cluster.JobID
	Generation cluster.Generation
}

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

// NewMirror makes a mirror of a listing as of revision. Changes that the
// listing has taken in must not follow. Where keys of the listing cannot be
// read the mirror is without them, usable, and the error names each.
func NewMirror(kvs []KV, revision int64) (*Mirror, error) {
	m := &Mirror{
		Leaders: map[string]Versioned[Leader]{},
		Told:    map[uint64]Versioned[Event]{},
		Kinds:   map[uint32]map[string]Versioned[JobKind]{},
		Nodes:   map[cluster.NodeID]*NodeView{},
		Jobs:    map[cluster.JobID]*JobView{},
		gone:    map[string]int64{},
	}
	var faults []error
	for _, kv := range kvs {
		if _, err := m.Apply(Change{KV: kv}); err != nil {
			faults = append(faults, err)
		}
	}
	m.Revision = max(m.Revision, revision)
	return m, errors.Join(faults...)
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

// Ack returns the node's acknowledgements of a generation, empty ones if there
// are none. The nonce is that of the generation's plan.
func (v *NodeView) Ack(j cluster.JobID, g cluster.Generation, nonce string) Acks {
	if a := v.Acks[JobGen{j, g}]; a != nil {
		return a.Of(nonce)
	}
	return Acks{}
}

// Reported returns how far a generation's ranks on this node have come, false if
// they have said nothing: by the progress record, or by what they said last.
func (v *NodeView) Reported(j cluster.JobID, g cluster.Generation, nonce string) (p JobProgress, ok bool) {
	if p, ok = v.Progress.Value.Jobs[j]; ok && (p.Generation != g || p.Nonce != nonce) {
		p, ok = JobProgress{}, false
	}
	if last := v.Ack(j, g, nonce).Stopped.Value.Progress; last != nil && (!ok || last.Step >= p.Step) {
		p, ok = *last, true
	}
	return p, ok
}

// Generation returns the generation's view, an empty one if nothing is recorded.
func (v *JobView) Generation(g cluster.Generation) GenerationView {
	if x := v.Generations[g]; x != nil {
		return *x
	}
	return GenerationView{}
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

// DeletedAt returns the revision of a key's newest deletion, 0 if none is remembered.
func (m *Mirror) DeletedAt(key string) int64 { return m.gone[key] }

// Apply takes one change in, and says what it is about. A change older than one
// already seen of the same key is ignored, so repeated and reordered deliveries
// do no harm. Texts for people are cut to MaxReason. A value that does not
// decode, or holds longer words than it can rightly, or a key that this version
// does not know, is an error that names the key; the mirror keeps what it had. A
// node, job or generation of which nothing is recorded any more leaves the mirror.
func (m *Mirror) Apply(c Change) (Place, error) {
	at, row := locate(c.Key)
	if c.ModRevision < m.gone[c.Key] {
		return at, nil
	}
	err := errUnknownKey
	if row != nil {
		err = row.set(m, at, c)
	}
	if c.Deleted || err != nil {
		m.prune(at.subtree())
	}
	if err != nil {
		return at, fmt.Errorf("record %s: %w", c.Key, err)
	}
	m.remember(c)
	m.Revision = max(m.Revision, c.ModRevision)
	if (at.Kind == KindEvent || at.Kind == KindNodeEvent) && !c.Deleted {
		m.told = max(m.told, c.ModRevision)
	}
	return at, nil
}

func (m *Mirror) setKind(at Place, c Change) error {
	of := m.Kinds[at.UID]
	if of == nil {
		of = map[string]Versioned[JobKind]{}
	}
	err := setIn(of, at.Name, c)
	if len(of) > 0 {
		m.Kinds[at.UID] = of
	} else {
		delete(m.Kinds, at.UID)
	}
	return err
}

func (m *Mirror) node(id cluster.NodeID) *NodeView {
	v := m.Nodes[id]
	if v == nil {
		v = &NodeView{
			ID: id, Told: map[uint64]Versioned[Event]{}, Grants: map[cluster.JobID]Versioned[Grant]{}, Next: map[cluster.JobID]Versioned[Next]{}, Ready: map[cluster.JobID]Versioned[Ready]{}, Requests: map[string]Versioned[Request]{},
			Acks: map[JobGen]*Acks{}, Saved: map[JobGen]map[int64]Versioned[Saved]{}, Offers: map[JobGen]map[int64]Versioned[Offer]{},
		}
		m.Nodes[id], m.nodeIDs = v, nil
	}
	return v
}

func (m *Mirror) job(id cluster.JobID) *JobView {
	v := m.Jobs[id]
	if v == nil {
		v = &JobView{
			ID: id, Generations: map[cluster.Generation]*GenerationView{}, Checkpoints: map[int64]Versioned[Checkpoint]{},
			Bad: map[int64]Versioned[BadCheckpoint]{}, Rescales: map[cluster.Generation]Versioned[Rescale]{},
		}
		m.Jobs[id], m.jobIDs = v, nil
	}
	return v
}

func (v *NodeView) ack(jg JobGen) *Acks {
	a := v.Acks[jg]
	if a == nil {
		a = &Acks{}
		v.Acks[jg] = a
	}
	return a
}

func (v *JobView) generation(g cluster.Generation) *GenerationView {
	x := v.Generations[g]
	if x == nil {
		x = &GenerationView{Fences: map[cluster.NodeID]Versioned[Fence]{}}
		v.Generations[g] = x
	}
	return x
}

var errUnknownKey = errors.New("unknown key: written by another version, or by hand")

// set takes a change into one record.
func set[T any](v *Versioned[T], c Change) error {
	if c.ModRevision < v.Mod {
		return nil
	}
	if c.Deleted {
		*v = Versioned[T]{}
		return nil
	}
	var value T
	if err := json.Unmarshal(c.Value, &value); err != nil {
		return fmt.Errorf("decode %.80q: %w", c.Value, err)
	}
	if x, ok := any(value).(checked); ok {
		if err := x.check(); err != nil {
			return err
		}
	}
	value = cutWords(value, MaxReason)
	*v = Versioned[T]{Value: value, Create: c.CreateRevision, Mod: c.ModRevision, Size: len(c.Value)}
	return nil
}

// setIn is set for one entry of a map; a deleted entry leaves the map.
func setIn[K comparable, T any](m map[K]Versioned[T], k K, c Change) error {
	v := m[k]
	if err := set(&v, c); err != nil {
		return err
	}
	if v.Exists() {
		m[k] = v
	} else {
		delete(m, k)
	}
	return nil
}

func inner[K comparable, T any](m map[JobGen]map[K]T, jg JobGen) map[K]T {
	x := m[jg]
	if x == nil {
		x = map[K]T{}
		m[jg] = x
	}
	return x
}

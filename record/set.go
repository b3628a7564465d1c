package record

import (
	"encoding/json"
	"fmt"

	"github.com/bellows-ml/bellows/cluster"
)

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

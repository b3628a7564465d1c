package record

import (
	"errors"
	"fmt"

	"github.com/bellows-ml/bellows/cluster"
)

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

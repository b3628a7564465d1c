package record

import (
	"cmp"
	"slices"
)

// Happening is an event with the revision at which it became true: they are in that order.
type Happening struct {
	Event
	Revision int64
}

// Events returns what the leaders and the nodes have told after a revision, in
// order. If there are none it costs nothing: a follower of events asks at
// each change of any record.
func (m *Mirror) Events(after int64) []Happening {
	if after >= m.told {
		return nil
	}
	var out []Happening
	take := func(v Versioned[Event]) {
		if v.Mod > after {
			out = append(out, Happening{v.Value, v.Mod})
		}
	}
	for _, v := range m.Told {
		take(v)
	}
	for _, n := range m.Nodes {
		for _, v := range n.Told {
			take(v)
		}
	}
	slices.SortFunc(out, func(a, b Happening) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Seq, b.Seq))
	})
	return out
}

// Newest returns the newest of a ring's events; one that does not exist if there is none.
func Newest(ring map[uint64]Versioned[Event]) Versioned[Event] {
	var newest Versioned[Event]
	for _, v := range ring {
		if v.Value.Seq > newest.Value.Seq {
			newest = v
		}
	}
	return newest
}

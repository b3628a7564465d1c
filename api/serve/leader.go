package serve

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bellows-ml/bellows/record"
)

// leaderRecord is who leads: the candidate whose key is the oldest, as the election has it.
func leaderRecord(m *record.Mirror) (best record.Versioned[record.Leader]) {
	for _, key := range slices.Sorted(maps.Keys(m.Leaders)) {
		if l := m.Leaders[key]; !best.Exists() || l.Create < best.Create {
			best = l
		}
	}
	return best
}

// leaderOf says who leads; empty if no one does.
func leaderOf(m *record.Mirror) string {
	best := leaderRecord(m)
	if !best.Exists() {
		return ""
	}
	return cmp.Or(best.Value.Node, best.Value.Incarnation, "unnamed")
}

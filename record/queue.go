package record

import (
	"cmp"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Queue returns the jobs that wait for devices in the order in which the
// allocator serves them: important ones first, then old ones. A job's place is
// not recorded: it would have to be rewritten for every job behind the one that
// leaves.
func (m *Mirror) Queue() []cluster.JobID {
	var waiting []*JobView
	for _, id := range m.JobIDs() {
		if v := m.Jobs[id]; v.Spec.Exists() && v.State.Exists() && v.State.Value.Phase == cluster.Queued {
			waiting = append(waiting, v)
		}
	}
	slices.SortFunc(waiting, func(a, b *JobView) int {
		return cmp.Or(
			cmp.Compare(b.Spec.Value.Priority, a.Spec.Value.Priority),
			a.Spec.Value.At.Compare(b.Spec.Value.At),
			cmp.Compare(a.ID, b.ID),
		)
	})
	out := make([]cluster.JobID, len(waiting))
	for i, v := range waiting {
		out[i] = v.ID
	}
	return out
}

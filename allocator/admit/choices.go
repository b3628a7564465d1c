package admit

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Choices yields the jobs whose deadlines are kept, in the order of these, each with
// the numbers of devices that it may have in the running slot, ascending and never
// none: that of its profile, and all larger ones with which its deadline is kept still,
// with the pauses of the change and of the way back to its profile.
func (pl *Plan) Choices(yield func(cluster.JobID, []int) bool) {
	s := spread{plan: pl, filler: pl.filler()}
	for i, e := range pl.jobs {
		j := shared{entry: e, profile: pl.profiles[i], devices: pl.profiles[i].At(0)}
		choices := []int{j.devices}
		for _, n := range e.worthHaving() {
			if _, _, kept := s.cost(&j, n); kept && n > j.devices {
				choices = append(choices, n)
			}
		}
		if !yield(e.ID, choices) {
			return
		}
	}
}

// worthHaving are the numbers on the job's ladder, and the one that it has.
func (e *entry) worthHaving() []int {
	var out []int
	for _, r := range e.rungs {
		out = append(out, r.devices)
	}
	if at, found := slices.BinarySearch(out, e.Present); !found && e.Present > 0 {
		out = slices.Insert(out, at, e.Present)
	}
	return out
}

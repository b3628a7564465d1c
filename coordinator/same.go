package coordinator

import (
	"slices"

	"github.com/bellows-ml/bellows/allocator"
	"github.com/bellows-ml/bellows/cluster"
)

// same reports whether two questions are alike in all that a decision depends
// on, but for what passes with time: it alone can change what a policy that is not
// timeless answers at an interval's end, but nothing that it may do between two.
func same(a, b *allocator.Input) bool {
	return a != nil && slices.EqualFunc(a.Nodes, b.Nodes, sameNode) && slices.EqualFunc(a.Jobs, b.Jobs, sameJob)
}

func sameNode(a, b cluster.Node) bool {
	return a.ID == b.ID && a.Cordoned == b.Cordoned && a.Location == b.Location && a.PricePerHour == b.PricePerHour &&
		slices.Equal(a.Devices, b.Devices)
}

func sameJob(a, b allocator.JobView) bool {
	return a.ID == b.ID && a.Pinned == b.Pinned && a.Promise.Now() == b.Promise.Now() && (a.Promise == nil) == (b.Promise == nil) && slices.Equal(a.Sizes, b.Sizes) && slices.Equal(a.Excluded, b.Excluded) &&
		a.Present.BatchSize == b.Present.BatchSize && slices.EqualFunc(a.Present.Placements, b.Present.Placements, samePlacement)
}

func samePlacement(a, b cluster.Placement) bool {
	return a.Node == b.Node && slices.Equal(a.Devices, b.Devices)
}

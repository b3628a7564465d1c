package api

import (
	"fmt"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// tooLarge warns of a job whose smallest world is larger than the cluster as it
// is, with nodes that are lost and may come back: it is queued, for others may
// join, and waits without end if none does.
func tooLarge(m *record.Mirror, spec cluster.Spec) []string {
	sizes, all, open := spec.WorldSizes(), 0, 0
	for _, id := range m.NodeIDs() {
		n := cluster.Node{ID: id, Devices: m.Node(id).Inventory.Value.Devices}
		all += len(n.Devices)
		if spec.Where.Refuses(n) == "" {
			open += len(n.Devices)
		}
	}
	if all == 0 || len(sizes) == 0 || sizes[0] <= open {
		return nil // nothing is known yet, it has another fault, or it fits
	}
	return []string{fmt.Sprintf("it never fits the cluster as it is: it needs %d or more devices, and the nodes that can run it have %d (%s); "+
		"the job waits until there are more", sizes[0], open, spec.LargestText(open))}
}

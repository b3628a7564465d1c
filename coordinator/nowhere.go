package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record/reason"
)

// namedReasons is how many reasons a text gives why nodes cannot run a job.
const namedReasons = 4

// refusedEverywhereWhy says why no node can run the job, in words whose length does not grow with the cluster.
func refusedEverywhereWhy(in situation) reason.Reason {
	refused, only := refusedBy(in), in.Spec.Value.Where.Nodes
	var unknown, away []cluster.NodeID
	for _, n := range only {
		switch v := in.mirror.Nodes[n]; {
		case v == nil || !v.Alive.Exists() && !v.Inventory.Exists():
			unknown = append(unknown, n)
		case !v.Alive.Exists():
			away = append(away, n)
		}
	}
	by := map[string][]cluster.NodeID{}
	for _, n := range slices.Sorted(maps.Keys(refused)) {
		if len(only) == 0 || slices.Contains(only, n) { // of the others there is nothing to say
			by[refused[n]] = append(by[refused[n]], n)
		}
	}
	var parts []string
	if len(unknown) > 0 {
		var known []cluster.NodeID
		for _, n := range in.live() {
			known = append(known, n.ID)
		}
		parts = append(parts, fmt.Sprintf("there is no node %s: there are %s; the job starts once such a node joins",
			someNodes(unknown), someNodes(known)))
	}
	if len(away) > 0 {
		parts = append(parts, fmt.Sprintf("lost: %s", someNodes(away)))
	}
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(by[b]), len(by[a])), cmp.Compare(a, b))
	})
	for _, why := range reasons[:min(len(reasons), namedReasons)] {
		parts = append(parts, fmt.Sprintf("%s: %s", someNodes(by[why]), why))
	}
	if more := len(reasons) - namedReasons; more > 0 {
		parts = append(parts, fmt.Sprintf("and %s of other nodes", units.Count(more, "reason")))
	}
	return reason.Of(reason.New(reason.RefusedEverywhere, "said", strings.Join(parts, "; ")))
}

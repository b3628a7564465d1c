package serve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// unfit warns of what a job wants and the cluster does not have as it is, with nodes that
// are lost and may come back. A job whose smallest world is larger is queued, for others
// may join, and waits without end if none does; one that prefers a model runs on others.
func unfit(m *record.Mirror, spec cluster.Spec) (warnings []string) {
	sizes, all, open, of := spec.WorldSizes(), 0, 0, map[string]int{}
	for _, id := range m.NodeIDs() {
		n := cluster.Node{ID: id, Devices: m.Node(id).Inventory.Value.Devices}
		all += len(n.Devices)
		if spec.Where.Refuses(n) != "" {
			continue
		}
		open += len(n.Devices)
		for _, d := range n.Devices {
			of[d.ModelName()]++
		}
	}
	if all == 0 || len(sizes) == 0 {
		return nil // nothing is known yet, or it has another fault
	}
	models := slices.Sorted(maps.Keys(of))
	most, kind, remedy := open, "", ""
	if len(models) > 1 && !spec.Where.MixModels {
		most, kind = slices.Max(slices.Collect(maps.Values(of))), " of one model"
		if open >= sizes[0] {
			remedy = ", or may have several models at once (--mix-models)"
		}
	}
	if sizes[0] > most {
		warnings = append(warnings, fmt.Sprintf("it never fits the cluster as it is: it needs %d or more devices%s, and the nodes that can run it have %d (%s); "+
			"the job waits until there are more%s", sizes[0], kind, most, spec.LargestText(most), remedy))
	}
	if prefers := spec.Where.PreferModel; prefers != "" && open > 0 && !slices.ContainsFunc(models, spec.Where.Prefers) {
		warnings = append(warnings, fmt.Sprintf("no device that can run it has %q in its model's name (--prefer-model): it runs on %s", prefers, strings.Join(models, ", ")))
	}
	return warnings
}

package render

import (
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
)

// whereText says in words which nodes may run a job.
func whereText(w cluster.Where) string {
	var parts []string
	if len(w.Nodes) > 0 {
		parts = append(parts, "only on "+nodesText(w.Nodes))
	}
	if len(w.Not) > 0 {
		parts = append(parts, "not on "+nodesText(w.Not))
	}
	if w.DeviceModel != "" {
		parts = append(parts, fmt.Sprintf("on devices whose model has %q in its name", w.DeviceModel))
	}
	if w.PreferModel != "" {
		parts = append(parts, fmt.Sprintf("preferably on devices whose model has %q in its name", w.PreferModel))
	}
	if w.MixModels {
		parts = append(parts, "on several models at once where none has enough devices")
	}
	if w.DeviceMemoryBytes > 0 {
		parts = append(parts, "on devices of "+units.Size(int64(w.DeviceMemoryBytes))+" or more")
	}
	return strings.Join(parts, ", ")
}

// nodesText names nodes for people.
func nodesText(nodes []cluster.NodeID) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(nodes), "[]"), " ", ", ")
}

package coordinator

import (
	"fmt"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
)

// list writes nodes for people.
func list(nodes []cluster.NodeID) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ", "), "[]")
}

// namedNodes is how many nodes a text names before it counts the others: it is
// read by people, and a cluster may have thousands.
const namedNodes = 5

// someNodes names a few nodes and counts the others.
func someNodes(nodes []cluster.NodeID) string {
	if more := len(nodes) - namedNodes; more > 1 {
		return fmt.Sprintf("%s and %d more", list(nodes[:namedNodes]), more)
	}
	return list(nodes)
}

// workersText writes the bounds of a job's worlds.
func workersText(low, high int) string {
	if low == high {
		return units.Count(low, "worker")
	}
	return fmt.Sprintf("%d to %s", low, units.Count(high, "worker"))
}

// named is how many nodes a reason names; there may be thousands.
const named = 3

package render

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/record"
)

// clockOff is how much clocks of nodes differ before people are told: where times
// are kept by NTP they do not by a second.
const clockOff = 10 * time.Second

// Nodes writes the table of nodes.
func Nodes(w io.Writer, nodes []api.NodeStatus, s output.Style) error {
	t := output.Table{
		Head: []string{"NODE", "STATE", "GOSSIP", "ADDRESS", "DEVICES", "FREE", "BUSY", "MEMORY", "USED BY", "NOTE"},
		Paint: func(row, column int) string {
			switch {
			case column != 1:
				return ""
			case nodes[row].Alive:
				return output.Green
			}
			return output.Red
		},
	}
	const after = 4 // columns
	located := slices.ContainsFunc(nodes, func(n api.NodeStatus) bool { return n.Location != "" })
	if located {
		t.Head = slices.Insert(t.Head, after, "LOCATION")
	}
	mixed := len(modelsOf(nodes...)) > 1
	if mixed {
		t.Head = slices.Insert(t.Head, slices.Index(t.Head, "FREE"), "MODEL")
	}
	for _, n := range nodes {
		used, free := usersOf(n)
		l := loadOf(n)
		row := []string{
			n.ID, stateOf(n), gossipOf(n), addressOf(n), fmt.Sprint(len(n.Devices)), free, l.share(), l.memoryText(), output.OrDash(used), noteOf(n),
		}
		if mixed {
			row = slices.Insert(row, after+1, output.OrDash(strings.Join(modelsOf(n), ", ")))
		}
		if located {
			row = slices.Insert(row, after, output.OrDash(n.Location))
		}
		t.Add(row...)
	}
	if err := t.Write(w, s); err != nil {
		return err
	}
	return writeUnread(w, nodes, s, false)
}

// modelsOf are the models of nodes' devices, as far as they are known.
func modelsOf(nodes ...api.NodeStatus) (models []string) {
	for _, n := range nodes {
		for _, d := range n.Devices {
			if d.Model != "" && !slices.Contains(models, d.Model) {
				models = append(models, d.Model)
			}
		}
	}
	return models
}

func stateOf(n api.NodeStatus) string {
	switch {
	case !n.Alive:
		return "lost"
	case n.Drain && slices.ContainsFunc(n.Devices, func(d api.DeviceStatus) bool { return d.Job != "" }):
		return "draining"
	case n.Drain:
		return "drained"
	case n.Cordon != "":
		return "cordoned"
	}
	return "alive"
}

// gossipOf is what is heard of a node. One that is alive by its lease should be
// heard, too: with another gossip key, or behind a firewall, it is not.
func gossipOf(n api.NodeStatus) string {
	if n.Gossip == "" && n.Alive {
		return "unheard"
	}
	return output.OrDash(n.Gossip)
}

// usersOf says which jobs have how many of a node's devices, and how many could be
// given out: of one that is lost it is not known.
func usersOf(n api.NodeStatus) (used, free string) {
	jobs, count := map[string]int{}, 0
	for _, d := range n.Devices {
		switch {
		case d.Job != "":
			jobs[d.Job]++
		case n.Alive && n.Cordon == "" && d.Health == string(cluster.Healthy):
			count++
		}
	}
	if n.Alive {
		free = fmt.Sprint(count)
	}
	var parts []string
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		parts = append(parts, fmt.Sprintf("%s ×%d", job, jobs[job]))
	}
	return strings.Join(parts, ", "), output.OrDash(free)
}

// addressOf is where a node is reached, and where its workers are if that is elsewhere.
func addressOf(n api.NodeStatus) string {
	if n.TrainAddr == "" || n.TrainAddr == n.Addr {
		return output.OrDash(n.Addr)
	}
	return output.OrDash(n.Addr) + " (training " + n.TrainAddr + ")"
}

func noteOf(n api.NodeStatus) string {
	var parts []string
	if gossipOf(n) == "unheard" {
		parts = append(parts, "no gossip from there: has it only just started, is its gossip key another, or port 7946 (TCP and UDP) closed?")
	}
	if n.Problem != "" {
		parts = append(parts, n.Problem)
	}
	if n.TopologyProblem != "" {
		parts = append(parts, "topology: "+n.TopologyProblem)
	}
	if n.Cordon != "" {
		what := "cordoned: "
		if n.Drain {
			what = "drained: "
		}
		parts = append(parts, what+n.Cordon)
	}
	if a := n.ClockAheadS; a != nil && math.Abs(*a) >= clockOff.Seconds() {
		by := time.Duration(math.Abs(*a) * float64(time.Second)).Round(time.Second)
		which := "ahead of"
		if *a < 0 {
			which = "behind"
		}
		parts = append(parts, fmt.Sprintf("its clock is %s %s that of the node asked: see its time service", units.Span(by), which))
	}
	if n.Launchers > 0 && n.Alive {
		parts = append(parts, fmt.Sprintf("%s of memory is used by %s", units.Size(n.LauncherBytes), units.Count(n.Launchers, "launcher")))
	}
	if n.PricePerHour > 0 {
		parts = append(parts, fmt.Sprintf("costs %.2f an hour", n.PricePerHour))
	}
	if record.DevicesOpen(n.DeviceFiles) {
		parts = append(parts, "device files: "+n.DeviceFiles)
	}
	ofAll := n.Problem != "" && !slices.ContainsFunc(n.Devices, func(d api.DeviceStatus) bool { return d.Problem != n.Devices[0].Problem })
	for _, d := range n.Devices {
		switch {
		case d.Problem != "" && ofAll: // the node's own problem says it
		case d.Problem != "":
			parts = append(parts, d.ID+": "+d.Problem)
		case d.Health != string(cluster.Healthy):
			parts = append(parts, d.ID+" "+d.Health)
		}
		for _, what := range warnings(d.Reading) {
			parts = append(parts, d.ID+": "+what)
		}
	}
	return output.OrDash(strings.Join(parts, "; "))
}

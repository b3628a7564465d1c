package serve

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// nodeStatuses lists every node of the cluster, or heard of by gossip, by name.
func nodeStatuses(m *record.Mirror, gossip map[cluster.NodeID]string) []api.NodeStatus {
	ids := map[cluster.NodeID]bool{}
	for id := range gossip {
		ids[id] = true
	}
	for id, v := range m.Nodes {
		if v.Belongs() { // else nothing is left of it but what it has said of jobs
			ids[id] = true
		}
	}
	users := deviceUsers(m)
	list := make([]api.NodeStatus, 0, len(ids))
	var nodes []cluster.Node
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		v := m.Node(id)
		s := api.NodeStatus{
			ID: string(id), Alive: v.Alive.Exists(), Gossip: gossip[id], Addr: v.Alive.Value.Addr, TrainAddr: v.Inventory.Value.Addr,
			Version: v.Alive.Value.Version, Problem: v.Inventory.Value.Problem, DeviceFiles: v.Inventory.Value.DeviceFiles,
			PricePerHour: v.Inventory.Value.PricePerHour,
			Devices:      []api.DeviceStatus{},
		}
		for job, ready := range v.Ready {
			if next, waits := asked(m, v, job); waits && ready.Value.For(next) && ready.Value.Cold == "" && (ready.Value.Workers > 0 || ready.Value.Of(next)) {
				s.Launchers++
				s.LauncherBytes += ready.Value.Memory
			}
		}
		if v.Cordon.Exists() {
			s.Cordon, s.Drain = v.Cordon.Value.Reason, v.Cordon.Value.Drain
		}
		node, problem := v.Inventory.Value.Node(id)
		s.Location, s.TopologyProblem = node.Location, problem
		nodes = append(nodes, node)
		for _, d := range node.Devices {
			x := users[d.ID]
			x.ID, x.Model, x.MemoryBytes, x.Health = string(d.ID), d.Model, d.MemoryBytes, string(d.Health)
			x.Problem, x.Group, x.NUMA = d.Problem, d.Group, d.NUMA
			s.Devices = append(s.Devices, x)
		}
		list = append(list, s)
	}
	disagree := cluster.Disagreements(nodes)
	for i, n := range nodes {
		list[i].TopologyProblem = strings.Join(slices.DeleteFunc([]string{list[i].TopologyProblem, disagree[n.ID]}, func(s string) bool { return s == "" }), "; ")
	}
	return list
}

// deviceUsers says which job has which device: by grant, and with the rank where the plan names it.
func deviceUsers(m *record.Mirror) map[cluster.DeviceID]api.DeviceStatus {
	users := map[cluster.DeviceID]api.DeviceStatus{}
	for _, id := range m.NodeIDs() {
		grants := m.Node(id).Grants
		for _, job := range slices.Sorted(maps.Keys(grants)) {
			g := grants[job].Value
			for _, d := range g.Devices {
				users[d] = api.DeviceStatus{Job: string(job), Generation: uint64(g.Generation)}
			}
			member, _, ok := m.Job(job).Generation(g.Generation).Plan.Value.World.Member(id)
			if !ok {
				continue
			}
			for local, rank := range member.Ranks() {
				for _, d := range member.DevicesOf(local) {
					if u, granted := users[d]; granted {
						u.Rank = &rank
						users[d] = u
					}
				}
			}
		}
	}
	return users
}

// nodeReader answers requests for the status of nodes.
type nodeReader struct {
	cfg     *Config
	view    *view
	devices *deviceReader
}

func (n *nodeReader) handleNodes(w http.ResponseWriter, r *http.Request) {
	var gossip map[cluster.NodeID]string
	if n.cfg.Gossip != nil {
		gossip = n.cfg.Gossip()
	}
	var list []api.NodeStatus
	if _, err := n.view.read(func(m *record.Mirror) { list = nodeStatuses(m, gossip) }); err != nil {
		writeError(w, err)
		return
	}
	n.devices.addToNodes(r.Context(), list)
	writeJSON(w, http.StatusOK, list)
}

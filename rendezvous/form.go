package rendezvous

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Node is what forming a world needs to know of a node that is alive.
type Node struct {
	ID       cluster.NodeID
	AliveRev int64  // its present life
	Addr     string // where other nodes reach its workers
	// Ports that the node reserves for rendezvous: FirstPort … FirstPort+PortCount-1.
	FirstPort, PortCount int
}

// Request is everything that a world is formed from.
type Request struct {
	Allocation cluster.Allocation
	Generation cluster.Generation
	Nonce      string // tells the generation from others of the same number
	PerNode    bool   // one process on each node, instead of one for each device
	// Previous are the members of the generation before, in rank order; empty if there is none.
	Previous []cluster.Member
	// Nodes must hold every node of the allocation.
	Nodes []Node
	// Taken endpoints are in use by live generations, or were by the job's own
	// last ones, whose sockets the kernel may not have let go of.
	Taken []cluster.Endpoint
}

// Reasons why a world cannot be formed.
var (
	ErrNodeUnknown = errors.New("node is not alive")
	ErrNoPort      = errors.New("no rendezvous port is free")
)

// Form makes the world of one generation. Members of the previous generation
// keep their order, so rank 0 stays on its node where that is still a member;
// new members follow, sorted by name. The master endpoint is a port of rank 0's node.
func Form(r Request) (cluster.World, error) {
	if r.Allocation.Workers() == 0 {
		return cluster.World{}, fmt.Errorf("form world of %s: the allocation has no devices", r.Allocation.Job)
	}
	w := cluster.World{Job: r.Allocation.Job, Generation: r.Generation, BatchSize: r.Allocation.BatchSize, Nonce: r.Nonce}
	rank := 0
	for _, p := range ordered(r.Allocation.Placements, r.Previous) {
		node, ok := find(r.Nodes, p.Node)
		if !ok {
			return cluster.World{}, fmt.Errorf("form world of %s: %s: %w", w.Job, p.Node, ErrNodeUnknown)
		}
		m := cluster.Member{
			Node: p.Node, AliveRev: node.AliveRev, Devices: slices.Clone(p.Devices), FirstRank: rank, OneProcess: r.PerNode,
		}
		w.Members = append(w.Members, m)
		rank += m.Processes()
	}
	first, _ := find(r.Nodes, w.Members[0].Node)
	master, err := pickPort(first, r)
	if err != nil {
		return cluster.World{}, fmt.Errorf("form world of %s: %w", w.Job, err)
	}
	w.Master = master
	return w, nil
}

// ordered returns the placements that have devices: those of old members in their old order, then the others by name.
func ordered(placements []cluster.Placement, previous []cluster.Member) []cluster.Placement {
	var out []cluster.Placement
	for _, p := range placements {
		if len(p.Devices) > 0 {
			out = append(out, p)
		}
	}
	position := func(p cluster.Placement) int {
		i := slices.IndexFunc(previous, func(m cluster.Member) bool { return m.Node == p.Node })
		if i < 0 {
			return len(previous)
		}
		return i
	}
	slices.SortFunc(out, func(a, b cluster.Placement) int {
		if d := position(a) - position(b); d != 0 {
			return d
		}
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
	return out
}

// pickPort rotates through the node's range by job and generation, so that a
// port which something else occupies is not tried again by the next generation.
func pickPort(n Node, r Request) (cluster.Endpoint, error) {
	if n.PortCount <= 0 {
		return cluster.Endpoint{}, fmt.Errorf("%s reserves no ports: %w", n.ID, ErrNoPort)
	}
	h := fnv.New32a()
	// Write of a hash never returns an error.
	_, _ = h.Write([]byte(r.Allocation.Job))
	start := (uint64(h.Sum32()) + uint64(r.Generation)) % uint64(n.PortCount)
	for i := range n.PortCount {
		e := cluster.Endpoint{Host: n.Addr, Port: n.FirstPort + (int(start)+i)%n.PortCount}
		if !slices.Contains(r.Taken, e) {
			return e, nil
		}
	}
	return cluster.Endpoint{}, fmt.Errorf("all %d ports of %s are taken: %w", n.PortCount, n.ID, ErrNoPort)
}

func find(nodes []Node, id cluster.NodeID) (Node, bool) {
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return Node{}, false
	}
	return nodes[i], true
}

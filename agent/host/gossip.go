package host

import (
	"maps"
	"net"
	"strconv"
	"sync"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/membership"
)

// gossip is what this node learns of others by gossip, and what it says of itself.
// It shows people faster what goes on; nothing is decided by it. The loop owns meta;
// the mutex guards heard, which the API reads.
type gossip struct {
	*membership.Gossip
	meta membership.Meta // as sent last; the loop's
	log  zerolog.Logger
	// belongs reports whether another node is one of the cluster's, by its records.
	belongs func(cluster.NodeID) bool

	mu    sync.Mutex
	heard map[cluster.NodeID]string
}

func startGossip(cfg Config, meta membership.Meta, c *census) (*gossip, error) {
	g, err := membership.Start(membership.Config{
		Node: cfg.Node,
		Bind: net.JoinHostPort(cfg.Bind, strconv.Itoa(cfg.GossipPort)),
		Key:  cfg.GossipKey,
		// Nothing from outside can send a packet to a loopback address.
		AllowPlain: net.ParseIP(cfg.Bind).IsLoopback(),
		Meta:       meta,
		Known:      c.known,
		Log:        cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	return &gossip{Gossip: g, meta: meta, log: cfg.Log, belongs: c.has, heard: map[cluster.NodeID]string{cfg.Node: "alive"}}, nil
}

// listen takes events in until gossip is closed.
func (g *gossip) listen() {
	for e := range g.Events() {
		log := g.log.With().Str("peer", string(e.Member.Node)).Logger()
		state := ""
		switch e.Kind {
		case membership.Joined:
			state = "alive"
			log.Info().Str("addr", e.Member.Addr).Msg("gossip: a node is there")
		case membership.Updated:
			state = "alive"
		case membership.Left:
			state = "left"
			log.Info().Msg("gossip: a node has left")
		case membership.Failed:
			state = "dead"
			log.Warn().Msg("gossip: a node fell silent")
		case membership.Conflict:
			log.Error().Str("other", e.Other).Msg("gossip: two nodes have one name: stop one of them")
		case membership.Missed:
			g.recount()
		}
		if state != "" {
			g.mu.Lock()
			g.heard[e.Member.Node] = state
			g.mu.Unlock()
		}
	}
}

// recount starts from the members as they are, after events were dropped.
func (g *gossip) recount() {
	members := g.Members()
	g.mu.Lock()
	defer g.mu.Unlock()
	for node := range g.heard {
		g.heard[node] = "dead"
	}
	for _, m := range members {
		g.heard[m.Node] = "alive"
	}
}

// states is what was heard of each node: alive, dead or left. One that has
// fallen silent and was removed is forgotten.
func (g *gossip) states() map[cluster.NodeID]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.heard, func(n cluster.NodeID, state string) bool { return state != "alive" && !g.belongs(n) })
	return maps.Clone(g.heard)
}

// tell sends to the others whether this node reaches etcd.
func (g *gossip) tell(etcdOK bool) {
	if g.meta.EtcdOK == etcdOK {
		return
	}
	g.meta.EtcdOK = etcdOK
	if err := g.UpdateMeta(g.meta); err != nil {
		g.log.Warn().Err(err).Msg("gossip: cannot tell about etcd")
	}
}

package host

import (
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/record"
)

const fencingLane agent.Lane = "fencing"

// promise records that the workers of this life die when its lease is not
// renewed, once that is so: the node has seen that it is not alone, knows all that
// runs here, and each of its shims has confirmed a deadline. The leader gives up no node that has not
// said so. Promised is promised: an agent that is started anew keeps the word of
// its predecessor, before it has counted the nodes. A node that is alone again,
// since all others were removed, takes its word back, and lets its workers live
// on without a lease only when that is recorded.
func (n *node) promise() {
	at := lane{what: fencingLane}
	if n.presence.aliveRev == 0 || !n.records.known(selfPart) || n.lanes[at] {
		return
	}
	say := func(life int64) {
		n.replace(at, "fencing", record.Put(record.FencingKey(n.cfg.Node), record.Fencing{AliveRev: life, At: time.Now().UTC()}))
	}
	said := n.self().Fencing.Value.AliveRev
	switch {
	case n.crowd == 1 && said != 0:
		say(0)
	case fence.Strict(n.crowd) && said != n.presence.aliveRev && n.accounted() && agent.Fenced(n.observed().Runs):
		say(n.presence.aliveRev)
	}
}

// strict reports whether workers here die when the node's lease is not renewed:
// another node may take their place, or might by this one's word.
func (n *node) strict() bool {
	return fence.Strict(n.crowd) || n.self().Fencing.Value.AliveRev != 0
}

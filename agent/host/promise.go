package host

import (
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/record"
)

const fencingLane agent.Lane = "fencing"

// promise records that the workers of this life die when its lease is not
// renewed, once that is so: the node has seen that it is not alone, and each of
// its shims has been told a deadline. The leader gives up no node that has not
// said so. Promised is promised: an agent that is started anew keeps the word of
// its predecessor, before it has counted the nodes.
func (n *node) promise() {
	at := lane{what: fencingLane}
	if n.presence.aliveRev == 0 || !n.records.known(selfPart) || n.lanes[at] {
		return
	}
	if n.self().Fencing.Value.AliveRev == n.presence.aliveRev {
		n.strict = true
		return
	}
	if !n.strict {
		return
	}
	for _, r := range n.runs {
		told := r.pushed != nil && r.pushed.Deadline != 0 && r.pushed.Deadline != fence.Never
		if (r.shim == agent.Live || r.shim == agent.Starting) && !told {
			return
		}
	}
	n.replace(at, "fencing", record.Put(record.FencingKey(n.cfg.Node), record.Fencing{AliveRev: n.presence.aliveRev, At: time.Now().UTC()}))
}

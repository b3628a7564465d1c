package host

import (
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/record"
)

const fencingLane agent.Lane = "fencing"

// fencing keeps the node's fencing record: in which life its workers die when the
// lease is not renewed. The leader gives up no node that has not recorded it. The
// loop owns it.
type fencing struct {
	*shared
	session  *session
	adoption *adoption
	goals    *goals
	writer   *writer
}

// update writes the record once it is true: the node knows of a second one, knows
// all that runs here, and each of its shims has confirmed a deadline. The record
// binds an agent that is started anew as well, before it has counted the nodes. A
// node that is alone again, since all others were removed, withdraws it, and lets
// its workers live on without a lease only when that is recorded.
func (fe *fencing) update() {
	at := loop.Lane{What: fencingLane}
	if !fe.session.joined() || fe.Busy(at) {
		return
	}
	put := func(life int64) {
		fe.writer.replace(at, "fencing", record.Put(record.FencingKey(fe.cfg.Node), record.Fencing{AliveRev: life, At: time.Now().UTC()}))
	}
	recorded := fe.records.self().Fencing.Value.AliveRev
	switch {
	case fe.session.nodes == 1 && recorded != 0:
		put(0)
	case fence.Strict(fe.session.nodes) && recorded != fe.session.presence.aliveRev && fe.adoption.accounted() && agent.Fenced(fe.goals.observed().Runs):
		put(fe.session.presence.aliveRev)
	}
}

package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func (c *changes) handleRemove(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		return c.remove(r.Context(), record.Request{Kind: record.RemoveRequest, Node: cluster.NodeID(r.PathValue("node")), Owner: who})
	})
}

// remove asks the leader to take a node out of the cluster for good, unless it
// would refuse, and waits a moment for it. It is for operators, as a drain is.
func (c *changes) remove(ctx context.Context, r record.Request) (api.RemoveReply, error) {
	reply := api.RemoveReply{Node: string(r.Node)}
	if err := mayOperate(r.Owner); err != nil {
		return reply, err
	}
	var wrong *api.Error
	look := func(m *record.Mirror) { reply.Removed, wrong = !m.Node(r.Node).Belongs(), stays(m, r.Node) }
	_, err := c.view.read(look)
	switch {
	case err != nil:
		return reply, err
	case reply.Removed:
		return reply, noNode(r.Node)
	case wrong != nil:
		return reply, wrong
	}
	if err := c.requests.ask(ctx, "", r); err != nil {
		return reply, err
	}
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	for {
		over := ctx.Err() != nil
		changed, err := c.view.read(look)
		switch {
		case err != nil || reply.Removed:
			return reply, err
		case over && wrong != nil: // it came back in this moment, and the leader has refused
			return reply, wrong
		case over: // perhaps there is no leader
			return reply, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// stays says why a node cannot be removed now, nil if it can.
func stays(m *record.Mirror, n cluster.NodeID) *api.Error {
	if m.Node(n).Alive.Exists() {
		return api.Fault(api.Invalid, "node %s is alive, or was seconds ago: drain it, and stop its agent once it is empty; if it is gone, try again in a moment", n)
	}
	if left := m.Unfinished(n); len(left) > 0 {
		return api.Fault(api.Invalid, "generation %d of job %s is not over on node %s: it is given up some %s after the node was lost, "+
			"or, if 'bellows show %s' says that the node was alone, when you say that it is certainly switched off: bellows drain %s --down",
			left[0].Generation, left[0].Job, n, givenUpAfter, left[0].Job, n)
	}
	return nil
}

// givenUpAfter is how long people wait until a lost node is given up, by default: its lease's time and the leader's.
const givenUpAfter = 22 * time.Second

package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// maxReason bounds what an operator can say about a node.
const maxReason = 1024

func (c *changes) handleDrain(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		var req api.DrainRequest
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		if len(req.Reason) > maxReason {
			return nil, api.Fault(api.Invalid, "reason has %d bytes: at most %d", len(req.Reason), maxReason)
		}
		return c.drain(r.Context(), record.Request{
			Kind: record.DrainRequest, Node: cluster.NodeID(r.PathValue("node")), Reason: req.Reason, Down: req.Down, Owner: who,
		})
	})
}

func (c *changes) handleUndrain(w http.ResponseWriter, r *http.Request) {
	answer(w, r, func(who cluster.Owner) (any, error) {
		return c.drain(r.Context(), record.Request{Kind: record.UndrainRequest, Node: cluster.NodeID(r.PathValue("node")), Owner: who})
	})
}

// drain passes a request about a node on. It is for root and for whom this
// agent runs as: the leader believes the agent.
func (c *changes) drain(ctx context.Context, r record.Request) (api.DrainReply, error) {
	if err := mayOperate(r.Owner); err != nil {
		return api.DrainReply{}, err
	}
	reply := api.DrainReply{Node: string(r.Node)}
	var wrong error
	_, err := c.view.read(func(m *record.Mirror) {
		v := m.Node(r.Node)
		reply.Jobs = len(v.Grants)
		switch {
		case !v.Belongs():
			wrong = noNode(r.Node)
		case r.Kind == record.UndrainRequest && !v.Cordon.Exists():
			wrong = api.Fault(api.Invalid, "node %s is not drained", r.Node)
		case r.Down && v.Alive.Exists():
			wrong = api.Fault(api.Invalid, "node %s is alive: its lease is renewed, so it is not down; drain it without --down", r.Node)
		}
	})
	if err == nil {
		err = wrong
	}
	if err != nil {
		return api.DrainReply{}, err
	}
	r.Reason = strings.Join(strings.Fields(r.Reason), " ")
	return reply, c.requests.ask(ctx, "", r)
}

// noNode says that the cluster has no such node.
func noNode(n cluster.NodeID) *api.Error {
	return api.Fault(api.NotFound, "there is no node %.80q: `bellows nodes` lists all of them", n)
}

// mayOperate reports why a caller is no operator of this cluster.
func mayOperate(who cluster.Owner) error {
	self := ownUID()
	if who.UID == 0 || who.UID == self {
		return nil
	}
	others := ""
	if self != 0 {
		others = fmt.Sprintf(" and %s (uid %d), whom this agent runs as,", userName(self), self)
	}
	return api.Fault(api.Forbidden, "only root%s may take nodes out of service; you are %s (uid %d)", others, who.User, who.UID)
}

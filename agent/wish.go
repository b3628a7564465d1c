package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/agent/run"
)

// wish is all that is wanted of a live shim.
func (p *planner) wish(x part) run.Wish {
	return run.Wish{
		Deadline: p.d.Deadline,
		Halt:     x.Halt,
		Kill:     p.kill(x),
		Start:    x.run.Binding == Bound,
		Retire:   x.Acks.Stopped.Exists(),
	}
}

// kill says why the workers must die now, "" if they need not.
func (p *planner) kill(x part) string {
	if r := x.run.Report; r != nil && r.Stopped != nil {
		return ""
	}
	saving := x.Halt != nil && x.Halt.Save
	if newer := p.newerPlan(x); newer != 0 {
		return fmt.Sprintf("generation %d is planned", newer)
	}
	switch {
	case !x.Permit:
		return "its permit was withdrawn"
	case x.Acks.Stopped.Exists():
		return "it is recorded as stopped"
	case !p.sameLife(x) && p.d.Strict:
		// The leader waits for the old lease's deadline only: a new lease must
		// not prolong the lives of the old one's workers.
		return "this node has lost its lease since"
	case x.Halt != nil && !x.Halt.Save:
		return x.Halt.Why.String()
	case saving:
		// A worker that fails during a save-halt is reported, but the others may still
		// finish their save: often a rank only stumbles over its peers' exits.
		return ""
	case x.Acks.Failed.Exists():
		return x.Acks.Failed.Value.Reason
	}
	peers := slices.Clone(x.Peers)
	slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(string(a.Node), string(b.Node)) })
	for _, peer := range peers {
		if peer.Failed != nil {
			return fmt.Sprintf("node %s: %s", peer.Node, peer.Failed.Reason)
		}
	}
	return ""
}

// push tells the shim what is wanted if that is not what it was told last.
func (p *planner) push(x part, w run.Wish) {
	if x.run.Shim != Live || x.run.Pushed != nil && x.run.Pushed.Equal(w) {
		return
	}
	p.add(Push{target: x.target, Wish: w})
}

package coordinator

import (
	"cmp"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// drain cordons a node and asks what runs there to save and go elsewhere; the
// next decision finds its devices unfit and moves their jobs. Who may ask is the
// agent's to check, which knows its operator.
func (c *Coordinator) drain(r request) {
	n := r.Value.Node
	v := c.mirror.Node(n)
	if !v.Belongs() {
		c.drop(r, &record.JobView{}, "drain: no such node")
		return
	}
	// Asked again without a reason, the one that is known stays; and what is down
	// stays down, until it is there: then nobody's word counts that it is not.
	isDown := !v.Alive.Exists() && (r.Value.Down || down(v))
	var ifs []record.Compare
	if isDown {
		ifs = append(ifs, record.Absent(record.AliveKey(n)))
	}
	c.cordon(r, record.NodeDrained, ifs, record.Put(record.CordonKey(n), record.Cordon{
		Reason: cmp.Or(r.Value.Reason, v.Cordon.Value.Reason, "asked for by "+r.Value.Owner.User),
		By:     r.Value.Owner.User, At: r.Value.At, Drain: true, Down: isDown,
	}))
}

// undrain gives a node back, whatever it was cordoned for.
func (c *Coordinator) undrain(r request) {
	n := r.Value.Node
	if !c.mirror.Node(n).Cordon.Exists() {
		c.drop(r, &record.JobView{}, "")
		return
	}
	c.cordon(r, record.NodeUndrained, nil, record.Delete(record.CordonKey(n)))
}

// cordon carries out a request about a node. No job's state is compared: a START
// on its way to the node lands before or after, and the job moves on if before.
func (c *Coordinator) cordon(r request, what record.EventKind, ifs []record.Compare, op record.Op) {
	c.send(move{
		verb:  "cordon",
		ifs:   append(ifs, record.Unchanged(r.key, r.Mod)),
		then:  []record.Op{record.Delete(r.key), op},
		note:  Note{Node: r.Value.Node, Text: string(what) + " by " + r.Value.Owner.User},
		event: record.Event{Kind: what, Node: r.Value.Node, By: r.Value.Owner.User, Why: r.Value.Reason},
	})
}

// unfit is a draining node's devices as decisions see them: none that a job could stay on.
func unfit(devices []cluster.Device) []cluster.Device {
	out := make([]cluster.Device, len(devices))
	for i, d := range devices {
		d.Health = cluster.Unhealthy
		out[i] = d
	}
	return out
}

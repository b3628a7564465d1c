package coordinator

import (
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// undead tells the owner of a job that was killed what it waits for when a member
// says that processes of it survive SIGKILL. The wait ends with the member's word
// that they run no code any more, or that they are gone: only the node can know.
func (c *Coordinator) undead(f formed) bool {
	if f.gen.Permit.Exists() {
		return false
	}
	for _, m := range f.world().Members {
		acks := c.acks(f, m.Node)
		failed := acks.Failed
		if len(failed.Value.Unkillable) == 0 || acks.Stopped.Exists() {
			continue
		}
		text := (blame{m.Node, failed.Value, failed.Create}).text()
		reason := c.worded(f.ID, f.state().Reason+"; "+text)
		if strings.Contains(f.state().Reason, text) || reason == f.state().Reason {
			continue
		}
		return c.send(move{
			verb: "undead", job: f.JobView,
			then: []record.Op{record.Put(record.StateKey(f.ID), c.next(f.JobView, cluster.Halting, reason))},
			note: Note{Warn: true, Job: f.ID, Gen: f.number(), Node: m.Node, Text: text},
		})
	}
	return false
}

package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// reportUnkillable tells the owner of a job that was killed what it waits for when a member
// says that processes of it survive SIGKILL. The wait ends with the member's word
// that they run no code any more, or that they are gone: only the node can know.
func reportUnkillable(in situation) *move {
	if in.gen.Permit.Exists() {
		return nil
	}
	for _, m := range in.world().Members {
		acks := acks(in, m.Node)
		failed := acks.Failed
		if len(failed.Value.Unkillable) == 0 || acks.Stopped.Exists() {
			continue
		}
		said := (failure{m.Node, failed.Value, failed.Create}).said()
		why := bounded(in, in.state().Reason.And(said))
		if in.state().Reason.Includes(said) || why.Equal(in.state().Reason) {
			continue
		}
		return &move{
			verb: "unkillable", job: in.JobView,
			then: []record.Op{record.Put(record.StateKey(in.ID), next(in, cluster.Halting, why))},
			note: Note{Warn: true, Job: in.ID, Gen: in.number(), Node: m.Node, Why: reason.Of(said)},
		}
	}
	return nil
}

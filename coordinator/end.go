package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// end sends DONE: the job keeps no devices and never runs again.
func end(in situation, phase cluster.Phase, why reason.Reason) *move {
	m := recordPhase(in, string(phase), next(in, phase, why))
	m.grant = &granting{}
	return m
}

// recordPhase records a phase in which the job holds no devices.
func recordPhase(in situation, verb string, s record.State) *move {
	then := fit(in, append([]record.Op{record.Put(record.StateKey(in.ID), s)}, release(in, cluster.World{})...))
	note := phaseNote(in.JobView, s)
	if s.Phase == in.state().Phase {
		note.Why = nil // the phase is as it was
	}
	m := &move{verb: verb, job: in.JobView, then: then, note: note}
	if s.Phase != in.state().Phase {
		m.forms = &cluster.World{}
	}
	return m
}

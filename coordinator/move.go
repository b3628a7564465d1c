package coordinator

import (
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// move is what a rule answers with: a transaction to send. Without a verb it
// sends nothing, and only says what the rule has found out.
type move struct {
	verb   string
	job    *record.JobView // whose state record is compared; nil: it concerns no job
	ifs    []record.Compare
	then   []record.Op
	note   Note               // for the log once applied, if it has a text
	event  record.Event       // for people; without a kind it follows from the note
	claims []cluster.DeviceID // devices that it gives to the job
	name   string             // job name that it takes into use

	forms    *cluster.World // of the generation that it starts, or none if it ends one: nothing else of the job may run by then. nil = neither
	prepares *preparation   // that it asks nodes for
	spends   bool           // it uses the job's preparation, whatever becomes of it

	grant   *granting     // what becomes of what decisions granted the job; nil = nothing
	askAnew bool          // the next question may be one that was asked before
	blocked reason.Reason // why the job does not start, although devices were granted to it
	final   bool          // no further rule is tried, although nothing is sent
}

// granting changes what decisions have granted a job.
type granting struct {
	to   *target // nil = nothing any more
	void bool    // it could not be had: the next decision has to make another, though not at once
}

// sends reports whether there is a transaction to send.
func (m *move) sends() bool { return m.verb != "" }

// after adds what a rule that was tried before has found out.
func (m *move) after(before *move) *move {
	if before == nil {
		return m
	}
	if m.grant == nil {
		m.grant = before.grant
	} else if before.grant != nil {
		m.grant.void = m.grant.void || before.grant.void
	}
	m.askAnew = m.askAnew || before.askAnew
	if m.job == nil {
		m.job = before.job
	}
	return m
}

// leave is the answer of a rule after which no other is tried.
func leave() *move { return &move{final: true} }

// phaseNote is the log line of a change of phase.
func phaseNote(v *record.JobView, s record.State) Note {
	return Note{Job: v.ID, Gen: s.Generation, Phase: s.Phase, Why: s.Reason}
}

// startVerb is that of START.
const startVerb = "start"

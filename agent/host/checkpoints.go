package host

import (
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/host/saves"
	"github.com/bellows-ml/bellows/record"
)

// checkpoints has the work with checkpoints done that the runs here and the records ask for. The loop owns it.
type checkpoints struct {
	*shared
	session  *session
	runs     *runs
	launcher *launcher
	saves    *saves.Saves
}

// generation is what is known of a run at this moment, for the work with what it saves.
func (cs *checkpoints) generation(r *hosted) saves.Generation {
	_, killPending := r.survivors()
	return saves.Generation{
		Of: r.jg, Nonce: r.nonce, Dir: r.dir, Order: r.order, Report: r.report, Live: r.shim == agent.Live,
		Ended: r.report != nil && r.report.Stopped != nil || r.shim == agent.Dead && r.sweep.done || killPending,
		Job:   cs.records.mirror.Job(r.jg.Job), Listed: cs.records.known(savesPart(r.jg.Job)), Here: cs.session.stillHere(),
	}
}

// look begins what is due.
func (cs *checkpoints) look() {
	for _, r := range cs.runs.all {
		cs.saves.Look(r.saves, cs.generation(r))
	}
}

func (cs *checkpoints) digest(at loop.Lane, a agent.Digest) {
	r := cs.runs.all[at.Of]
	cs.saves.Digest(at, r.saves, cs.generation(r), a)
}

func (cs *checkpoints) merge(at loop.Lane, a agent.Merge) {
	r := cs.runs.all[at.Of]
	cs.saves.Merge(at, r.saves, cs.generation(r), a)
}

// verify compares the checkpoint that a generation resumes from with what was committed.
func (cs *checkpoints) verify(at loop.Lane, a agent.Verify) {
	r := cs.runs.all[at.Of]
	if nonce := a.Plan.World.Nonce; r == nil || r.nonce != nonce { // what was found of another's counts for nothing
		r = cs.runs.newRun(at.Of, nonce, cs.runDir(at.Of, nonce), agent.Absent)
	}
	prepare := r.order.Prepare
	r.order = cs.launcher.order(at.Of, a.Spec, a.Plan)
	r.order.Prepare = prepare // a prepared run stays one
	r.resume.cancel = cs.saves.Verify(at, cs.generation(r), a, func(failed *record.Failed, sound bool) {
		r.changed, r.refused, r.resume.sound = time.Now(), failed, sound
	})
}

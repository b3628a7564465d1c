package agent

import (
	"time"

	"github.com/bellows-ml/bellows/record"
)

// acknowledge plans the next acknowledgement that is due: one at a time, so that
// they are written in order whatever becomes of each. savesDone says that no save
// of the run is still on its way.
func (p *planner) acknowledge(x part, savesDone bool) {
	write := func(kind record.Ack, value any) {
		p.add(WriteAck{target: x.target, Ack: kind, Value: value})
	}
	a, r, nonce := x.Acks, x.run.Report, x.Plan.World.Nonce
	if a.Stopped.Exists() {
		return
	}
	if r != nil && len(r.Workers) > 0 && !a.Started.Exists() && !a.Failed.Exists() {
		said := record.Started{
			Workers: r.Workers, ExecedAt: r.ExecedAt, Containment: r.Containment, DeviceFiles: r.DeviceFiles, Processes: r.Processes,
			Nonce: nonce, Warm: r.Warm, Unforkable: r.Unforkable,
		}
		switch {
		case r.Prepared != nil && r.Warm:
			said.Parked = r.Prepared.Parked
		case r.Prepared != nil && r.Prepared.Cold != "":
			said.Cold = r.Prepared.Cold
		default:
			said.Cold = x.Plan.Cold
		}
		write(record.AckStarted, said)
		return
	}
	if held := p.held(x); held != nil && !a.Held.Exists() && !a.Failed.Exists() {
		said := *held
		said.Nonce = nonce
		write(record.AckHeld, said)
		return
	}
	if failed := p.failed(x); failed != nil && !a.Failed.Exists() {
		said := *failed
		said.Nonce = nonce
		write(record.AckFailed, said)
		return
	}
	if x.run.ended() && savesDone && !p.stillborn(x) {
		write(record.AckStopped, p.stopped(x))
	}
}

// held answers a halt: with the shim's answer, or, where nothing ever ran, with
// "nothing was begun", so that the others need not wait for this node. Where all
// ranks had exited before the halt came, while those of other nodes still train,
// no shim answers; but the node may only stop once it has the others' part of its
// last save. So it names that save's step, for the others to come to.
func (p *planner) held(x part) *record.Held {
	r, last := x.run.Report, newestStep(x.Saved)
	switch {
	case r != nil && r.Held == nil && r.Stopped != nil && r.Stopped.Finished && len(r.Saves) > 0 &&
		x.rank0 && last > newestStep(x.Offers) && x.Halt != nil && x.Halt.Save:
		return &record.Held{SDK: true, Begun: last, At: p.now.Now}
	case r != nil:
		return r.Held
	case x.run.Shim == Absent && x.run.gone() && x.Halt != nil && x.Halt.Save && !x.Acks.Started.Exists():
		return &record.Held{Begun: -1, Deaf: true, At: p.now.Now}
	}
	return nil
}

// failed says why this node's part cannot go on, nil if it can, or if it merely
// never began: a permit withdrawn before the start is not a failure.
func (p *planner) failed(x part) *record.Failed {
	r := x.run
	lost := func(reason string) *record.Failed {
		return &record.Failed{Kind: record.NodeFenced, Reason: reason, Rank: -1, At: p.now.Now}
	}
	switch {
	case r.Report != nil && r.Report.Failed != nil:
		return r.Report.Failed
	case r.Refused != nil:
		return r.Refused
	case r.Shim == Absent && x.Acks.Started.Exists() && p.endedBefore(x):
		return lost("etcd was restored from a backup: since that was made, this generation has ended here")
	case r.Shim == Absent && x.Acks.Started.Exists():
		return lost("the run directory is gone, and with it all that is known of the workers")
	case r.Shim == Absent && !p.sameLife(x):
		return lost("the plan was made for an earlier life of this node")
	case r.Shim == Dead && r.Swept && r.ToldToKill >= HangPatience && (r.Report == nil || r.Report.Stopped == nil):
		return lost("the process that hosts its workers (bellows shim) did not end them when it was told to: the agent killed them")
	case r.Killed && r.Shim == Dead && r.Swept && (r.Report == nil || r.Report.Stopped == nil):
		return lost("its workers were not killed at the fencing deadline by the process that hosts them (bellows shim): the agent killed them")
	case r.Shim == Dead && r.Swept && (r.Report != nil && r.Report.Stopped == nil || r.Report == nil && x.Acks.Started.Exists()):
		// Not charged to the job: nothing says that it was its fault.
		return lost("the process that hosts its workers (bellows shim) died; they were killed")
	}
	return nil
}

// endedBefore reports whether a generation that has started here, and of which no run
// is left, was ended and removed by an agent: the records that say so are lost. This
// agent knows where its run was, if it was planned in this agent's time; and a later
// generation that the records do not know was started after it had ended.
func (p *planner) endedBefore(x part) bool {
	if x.Fresh {
		return true
	}
	for jg, r := range p.runs {
		if jg.Job != x.JobGen.Job || jg.Generation <= x.JobGen.Generation || r.Shim == Absent {
			continue
		}
		if g := p.goals[jg]; g.Read && (g.Plan == nil || g.Plan.World.Nonce != r.Nonce) {
			return true
		}
	}
	return false
}

func (p *planner) stopped(x part) record.Stopped {
	s := record.Stopped{ExitedAt: p.now.Now}
	if r := x.run.Report; r != nil && r.Stopped != nil {
		s = *r.Stopped
	}
	if !x.run.gone() {
		s.Unkillable = x.run.KillPending
	}
	if r := x.run.Report; r != nil && r.Progress != nil {
		last := *r.Progress
		last.Generation, s.Progress = x.JobGen.Generation, &last
	}
	s.SavedAt, s.Nonce = time.Time{}, x.Plan.World.Nonce
	for _, saved := range x.Saved {
		if saved.Lost == "" && saved.At.After(s.SavedAt) {
			s.SavedAt = saved.At
		}
	}
	return s
}

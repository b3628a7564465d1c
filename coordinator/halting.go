package coordinator

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/speed"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// haltStop halts a job whose owner wants it stopped.
func haltStop(in situation) *move {
	if !in.unwanted() {
		return nil
	}
	return halt(in, order{verb: "halt", why: stoppedWhy(in.job), save: true, within: time.Duration(in.Spec.Value.HaltTimeout)})
}

// haltIdle halts a generation in which a member stopped although nothing was
// asked of it and nothing failed: it can never become whole again.
func haltIdle(in situation) *move {
	for _, a := range in.roll {
		if a.Stopped && !a.Finished {
			return halt(in, order{verb: "halt", why: reason.Of(reason.New(reason.Exited, "node", a.Node))})
		}
	}
	if len(in.roll) == 0 {
		return halt(in, order{verb: "halt", why: reason.Of(reason.New(reason.NoPlan))})
	}
	return nil
}

// haltOverdue halts a generation that did not start as one gang in time.
func haltOverdue(in situation) *move {
	if in.state().Phase != cluster.Starting {
		return nil
	}
	at, within := in.since(wait{in.ID, startWait}, in.gen.Plan.Value.At), in.cfg.Timing.StartWithin
	late := in.roll.Overdue(at, in.clock, within)
	if len(late) == 0 {
		in.wake(at.Add(within))
		return nil
	}
	return halt(in, order{verb: "halt", why: reason.Of(reason.New(reason.NotStarted, "within", within, "nodes", list(late)))})
}

// rescale halts a running job whose last decision grants it other devices than
// it has. One that only grows runs on until the devices that it gains are free
// (ADR 13).
func rescale(in situation) *move {
	o, resized := rescaling(in)
	if !resized {
		in.end(wait{in.ID, prepareWait})
		return nil
	}
	if until, awaits := awaitsPrepared(in); awaits && in.clock.Before(until) {
		in.wake(until) // it trains on meanwhile
		return nil
	}
	return halt(in, o)
}

// rescaling returns how the job is to be halted for what the last decision grants it, false
// if it is not.
func rescaling(in situation) (o order, resized bool) {
	t, ok := in.target, in.decided
	if in.state().Phase != cluster.Running || !ok || in.state().Pinned && in.job.fault == "" {
		return o, false
	}
	if end, finished := overdueAt(in); in.job.fault == "" && finished && in.clock.Before(end) {
		in.wake(end)
		return o, false // it only has to end
	}
	have, kept, blocked := in.has, 0, false
	for _, p := range t.Placements {
		m, _, _ := in.world().Member(p.Node)
		for _, d := range p.Devices {
			switch {
			case slices.Contains(m.Devices, d):
				kept++
			case !free(in, deviceRef{p.Node, d}, in.ID):
				blocked = true
			}
		}
	}
	grows := kept == have.Workers()
	if grows {
		if blocked || t.Workers() == kept && (t.BatchSize == have.BatchSize || t.Workers() == 0) {
			return o, false
		}
		if at := underWayAt(in); in.clock.Before(at) {
			in.wake(at)
			return o, false
		}
	}
	to, because := t.Workers(), resizeReason(in.job, t)
	if in.job.fault != "" {
		because = reason.Of(reason.New(reason.Broken, "said", in.job.fault))
	}
	why := resizeWhy(have.Workers(), to, because)
	if grows && to == kept {
		why = rebatchWhy(have.BatchSize, t.BatchSize, because)
	}
	return order{
		verb: "halt", why: reason.Of(why), to: &to,
		save: true, within: time.Duration(in.Spec.Value.HaltTimeout),
	}, true
}

// underWithin is how long a job that is to grow is left alone to come to its first
// step: to halt it before would cost its start and gain it nothing. Plain scripts
// do not say that they have begun.
const underWithin = 20 * time.Second

// underWayAt is from when on a running generation counts as under way: since ever if it has begun
// its first step, else when it has had the time for it.
func underWayAt(in situation) time.Time {
	if speed.Reported(in.mirror, in.ID, in.world()) >= 0 || in.Committed.Exists() && in.Committed.Value.Generation == in.number() {
		return time.Time{}
	}
	return in.since(wait{in.ID, startWait}, in.gen.Plan.Value.At).Add(underWithin)
}

// stopAfter tells the ranks which step is the last, once all have said what they
// have begun; or, where no rank has anything to say, to go by SIGTERM. Not
// before: a rank that is still importing looks like a plain script, and must
// not be ended while others have begun a step that needs it.
func stopAfter(in situation) *move {
	h := in.gen.Halt.Value
	begun, sdk, known := in.roll.Answers()
	if !known || !h.Save || h.StopAfter != nil || h.Terminate || !in.gen.Halt.Exists() || !in.gen.Permit.Exists() {
		return nil
	}
	verb := "stop-after"
	if sdk {
		h.StopAfter = &begun
	} else {
		verb, h.Terminate = "terminate", true
	}
	return &move{
		verb: verb, job: in.JobView,
		then: []record.Op{record.Put(record.HaltKey(in.ID, in.number()), h)},
	}
}

// kill deletes the permit of a generation whose time to save is over. A worker
// that fails in a halt does not cut it short: often it only stumbles over its
// peers' exits, while others are still saving. See ADR 12.
func kill(in situation) *move {
	if !in.gen.Permit.Exists() {
		return nil
	}
	if left := saveTime(in); left > 0 {
		in.wake(in.clock.Add(left))
		return nil
	}
	why := in.state().Reason
	if first, ok := firstFailure(in); ok {
		why = why.And(first.said())
	}
	why = why.And(reason.New(reason.Killed, "nodes", list(in.roll.Present())))
	s := next(in, cluster.Halting, why)
	return &move{
		verb: "kill", job: in.JobView,
		then: []record.Op{
			record.Put(record.StateKey(in.ID), s),
			record.Delete(record.PermitKey(in.ID, in.number())),
		},
		note:  Note{Warn: true, Job: in.ID, Gen: in.number(), Why: why},
		event: record.Event{Kind: record.JobKilled, Job: in.ID, Generation: in.number(), Why: why},
	}
}

package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// order is how a generation is to be halted.
type order struct {
	verb   string
	why    reason.Reason
	save   bool
	within time.Duration                   // for the save
	to     *int                            // the size of the world that it makes room for, if any
	also   func(record.State) record.State // what else changes in the job's state; nil = nothing
	event  record.Event                    // other than that it is halted
}

// halt sends HALT. Without a save the permit goes at once: kill now.
func halt(in situation, o order) *move {
	if in.unwanted() && in.Wanted.Value.Now {
		o.save = false
	}
	o.why = o.why.Cut(record.MaxReason)
	s := next(in, cluster.Halting, o.why)
	if o.also != nil {
		s = o.also(s)
	}
	then := []record.Op{
		record.Put(record.StateKey(in.ID), s),
		record.Put(record.HaltKey(in.ID, in.number()), record.Halt{
			Why: o.why, To: o.to, Save: o.save, Deadline: in.now.Add(o.within), At: in.now,
		}),
	}
	if !o.save {
		then = append(then, record.Delete(record.PermitKey(in.ID, in.number())))
	}
	return &move{verb: o.verb, job: in.JobView, then: then, note: phaseNote(in.JobView, s), event: o.event}
}

// saveTime is how long a halted generation still has to save.
func saveTime(in situation) time.Duration {
	h := in.gen.Halt.Value
	return h.Deadline.Sub(h.At) - in.clock.Sub(in.since(wait{in.ID, saveWait}, h.At))
}

// shortened is the halt with so much time left to save.
func shortened(in situation, left time.Duration) record.Halt {
	h := in.gen.Halt.Value
	h.Deadline = h.At.Add(in.clock.Sub(in.since(wait{in.ID, saveWait}, h.At)) + max(0, left))
	return h
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

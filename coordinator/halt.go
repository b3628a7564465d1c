package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// order is how a generation is to be halted.
type order struct {
	verb   string
	why    string
	save   bool
	within time.Duration // for the save
	to     *int          // the size of the world that it makes room for, if any
	state  record.State  // what else changes; zero = nothing
	event  record.Event  // other than that it is halted
}

// halt sends HALT. Without a save the permit goes at once: kill now.
func (c *Coordinator) halt(f formed, o order) bool {
	if f.unwanted() && f.Wanted.Value.Now {
		o.save = false
	}
	o.why = record.Reason(o.why)
	s := c.next(f.JobView, cluster.Halting, o.why)
	if o.state.Phase != "" {
		s.Failure, s.Excluded, s.Passing = o.state.Failure, o.state.Excluded, o.state.Passing
		s.Retries, s.RoomWaits = o.state.Retries, o.state.RoomWaits
	}
	then := []record.Op{
		record.Put(record.StateKey(f.ID), s),
		record.Put(record.HaltKey(f.ID, f.number()), record.Halt{
			Why: o.why, To: o.to, Save: o.save, Deadline: c.now.Add(o.within), At: c.now,
		}),
	}
	if !o.save {
		then = append(then, record.Delete(record.PermitKey(f.ID, f.number())))
	}
	return c.send(move{verb: o.verb, job: f.JobView, then: then, note: phaseNote(f.JobView, s), event: o.event})
}

// haltStop halts a job whose owner wants it stopped.
func (c *Coordinator) haltStop(f formed) bool {
	if !f.unwanted() {
		return false
	}
	return c.halt(f, order{verb: "halt", why: stoppedWhy(f), save: true, within: time.Duration(f.Spec.Value.HaltTimeout)})
}

// haltIdle halts a generation in which a member stopped although nothing was
// asked of it and nothing failed: it can never become whole again.
func (c *Coordinator) haltIdle(f formed) bool {
	for _, a := range f.roll {
		if a.Stopped && !a.Finished {
			return c.halt(f, order{verb: "halt", why: fmt.Sprintf("workers on %s stopped unasked", a.Node)})
		}
	}
	if len(f.roll) == 0 {
		return c.halt(f, order{verb: "halt", why: errNoPlan.Error()})
	}
	return false
}

// haltOverdue halts a generation that did not start as one gang in time.
func (c *Coordinator) haltOverdue(f formed) bool {
	if f.state().Phase != cluster.Starting {
		return false
	}
	at, within := c.since(wait{f.ID, startWait}, f.gen.Plan.Value.At), c.cfg.Timing.StartWithin
	late := f.roll.Overdue(at, c.clock, within)
	if len(late) == 0 {
		c.wake(at.Add(within))
		return false
	}
	return c.halt(f, order{verb: "halt", why: fmt.Sprintf("not started within %v: %s", within, list(late))})
}

// rescale halts a running job whose last decision grants it other devices than
// it has. One that only grows runs on until the devices that it gains are free.
func (c *Coordinator) rescale(f formed) bool {
	t, ok := c.targets.of[f.ID]
	if f.state().Phase != cluster.Running || !ok || f.state().Pinned && c.broken(f) == "" {
		return false
	}
	have, kept, blocked := f.has, 0, false
	for _, p := range t.Placements {
		m, _, _ := f.world().Member(p.Node)
		for _, d := range p.Devices {
			switch {
			case slices.Contains(m.Devices, d):
				kept++
			case !c.free(slot{p.Node, d}, f.ID):
				blocked = true
			}
		}
	}
	grows := kept == have.Workers()
	if grows && (blocked || t.Workers() == kept && (t.BatchSize == have.BatchSize || t.Workers() == 0) || !c.underWay(f)) {
		return false
	}
	to := t.Workers()
	return c.halt(f, order{
		verb: "halt", why: resizeWhy(have.Workers(), to, cmp.Or(c.broken(f), resizeReason(f, t))), to: &to,
		save: true, within: time.Duration(f.Spec.Value.HaltTimeout),
	})
}

// underWithin is how long a job that is to grow is left alone to come to its first
// step: to halt it before would cost its start and gain it nothing. Plain scripts
// do not say that they have begun.
const underWithin = 20 * time.Second

// underWay reports whether a running generation has begun its first step, or has
// had the time for it.
func (c *Coordinator) underWay(f formed) bool {
	if c.progress(f) >= 0 || f.Committed.Exists() && f.Committed.Value.Generation == f.number() {
		return true
	}
	end := c.since(wait{f.ID, startWait}, f.gen.Plan.Value.At).Add(underWithin)
	c.wake(end)
	return !c.clock.Before(end)
}

// stopAfter tells the ranks which step is the last, once all have said what they
// have begun; or, where no rank has anything to say, to go by SIGTERM. Not
// before: a rank that is still importing looks like a plain script, and must
// not be ended while others have begun a step that needs it.
func (c *Coordinator) stopAfter(f formed) bool {
	h := f.gen.Halt.Value
	begun, sdk, known := f.roll.Answers()
	if !known || !h.Save || h.StopAfter != nil || h.Terminate || !f.gen.Halt.Exists() || !f.gen.Permit.Exists() {
		return false
	}
	verb := "stop-after"
	if sdk {
		h.StopAfter = &begun
	} else {
		verb, h.Terminate = "terminate", true
	}
	return c.send(move{
		verb: verb, job: f.JobView,
		then: []record.Op{record.Put(record.HaltKey(f.ID, f.number()), h)},
	})
}

// kill deletes the permit of a generation whose time to save is over. A worker
// that fails in a halt does not cut it short: often it only stumbles over its
// peers' exits, while others are still saving.
func (c *Coordinator) kill(f formed) bool {
	if !f.gen.Permit.Exists() {
		return false
	}
	if left := c.saveTime(f); left > 0 {
		c.wake(c.clock.Add(left))
		return false
	}
	reason := f.state().Reason
	if first, ok := c.blame(f); ok {
		reason += "; " + first.text()
	}
	reason += "; not stopped in time, killed: " + list(f.roll.Present())
	s := c.next(f.JobView, cluster.Halting, reason)
	return c.send(move{
		verb: "kill", job: f.JobView,
		then: []record.Op{
			record.Put(record.StateKey(f.ID), s),
			record.Delete(record.PermitKey(f.ID, f.number())),
		},
		note:  Note{Warn: true, Job: f.ID, Gen: f.number(), Text: reason},
		event: record.Event{Kind: record.JobKilled, Job: f.ID, Generation: f.number(), Why: reason},
	})
}

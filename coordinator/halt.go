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
	within time.Duration // for the save
	to     *int          // the size of the world that it makes room for, if any
	state  record.State  // what else changes; zero = nothing
	event  record.Event  // other than that it is halted
}

// halt sends HALT. Without a save the permit goes at once: kill now.
func halt(in situation, o order) *move {
	if in.unwanted() && in.Wanted.Value.Now {
		o.save = false
	}
	o.why = o.why.Cut(record.MaxReason)
	s := next(in, cluster.Halting, o.why)
	if o.state.Phase != "" {
		s.Failure, s.Excluded, s.Passing = o.state.Failure, o.state.Excluded, o.state.Passing
		s.Retries, s.RoomWaits = o.state.Retries, o.state.RoomWaits
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

package coordinator

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// What happens is told to people by events. Each rides in the transaction that
// makes it true, so an event never tells of what did not happen, and costs no
// transaction of its own. Two things are made true by none of the leader's: that
// it leads, and that a node has vanished. Those alone get one.

// news numbers the events that this term writes, and knows what it has reported.
type news struct {
	last         uint64                   // number of the newest event; 0 = not known yet
	announced    bool                     // it is written down that this leader leads
	lossReported map[cluster.NodeID]int64 // nodes whose loss is, by the revision of their own last word
}

func newNews() news { return news{lossReported: map[cluster.NodeID]int64{}} }

// write is the operation that writes an event, numbered and dated.
func (w *news) write(e record.Event, m *record.Mirror, now time.Time) record.Op {
	if w.last == 0 { // since then no other leader has written any
		w.last = record.Newest(m.Told).Value.Seq
	}
	w.last++
	e.Seq, e.At = w.last, now
	return record.Put(record.EventKey(e.Seq), e)
}

// eventOf is what a transaction lets happen that people should know of; false if
// there is nothing. A change of phase is, where the move does not say otherwise.
func eventOf(m *move) (record.Event, bool) {
	switch {
	case m.event.Kind != "":
		return m.event, true
	case len(m.note.Why) == 0:
		return record.Event{}, false
	}
	e := record.Event{Job: m.note.Job, Generation: m.note.Gen, Why: m.note.Why}
	switch m.note.Phase {
	case cluster.Queued:
		e.Kind = record.JobQueued
	case cluster.Halting:
		e.Kind = record.JobHalting
	case cluster.Backoff:
		e.Kind = record.JobBackoff
	case cluster.Held:
		e.Kind = record.JobHeld
	case cluster.Succeeded:
		e.Kind = record.JobSucceeded
	case cluster.Failed:
		e.Kind = record.JobFailed
	case cluster.Stopped:
		e.Kind = record.JobStopped
	case cluster.Refused:
		e.Kind = record.JobRefused
	case cluster.Starting, cluster.Running: // that all have started is told with its figures
	}
	return e, e.Kind != ""
}

// startedEvent tells of a generation all of whose workers were started.
func startedEvent(r record.Rescale, id cluster.JobID) record.Event {
	e := record.Event{
		Kind: record.JobRescaled, Job: id, Generation: r.Generation, From: r.From, To: r.To, Why: r.Why,
		Seconds: r.SignalS + r.SaveS + r.WaitS + r.CommitS + r.StartS, OwnS: r.OwnS, Predicted: r.Predicted,
	}
	if r.From == 0 {
		e.Kind = record.JobStarted
	}
	return e
}

// failedEvent tells of a member's failure.
func failedEvent(j *job, b failure) record.Event {
	e := record.Event{Kind: record.JobHalting, Job: j.ID, Generation: j.number(), Node: b.node, Why: reason.Of(b.said())}
	if b.failed.Kind == record.WorkerFailed {
		e.Kind = record.JobWorkerFailed
	}
	if b.failed.Rank >= 0 {
		e.Rank = &b.failed.Rank
	}
	return e
}

// tell writes down what no other transaction makes true, one at a time.
func (w *news) tell(in situation) *move {
	if in.cfg.Quiet || in.clusterBusy() {
		return nil
	}
	if !w.announced {
		if w.announced = leadTold(in); !w.announced {
			return &move{verb: "report", event: leadEvent(in)}
		}
	}
	if e, ok := w.vanished(in); ok {
		return &move{verb: "report", event: e, ifs: []record.Compare{record.Absent(record.AliveKey(e.Node))}}
	}
	return nil
}

// leadTold reports whether it is written down that this leader leads.
func leadTold(in situation) bool {
	for _, v := range in.mirror.Told {
		if v.Value.Kind == record.LeaderChanged && v.Value.Term == in.cfg.Token.Mod {
			return true
		}
	}
	return false
}

// leadEvent tells that this leader leads, and who did before.
func leadEvent(in situation) record.Event {
	e := record.Event{Kind: record.LeaderChanged, Term: in.cfg.Token.Mod, By: in.mirror.Leaders[in.cfg.Token.Key].Value.Node, Why: reason.Of(reason.New(reason.Leads))}
	var before record.Versioned[record.Event]
	for _, v := range in.mirror.Told {
		if v.Value.Kind == record.LeaderChanged && v.Mod > before.Mod {
			before = v
		}
	}
	switch {
	case before.Exists() && before.Value.By == e.By:
		e.Why = reason.Of(reason.New(reason.LeadsAgain))
	case before.Exists():
		e.Why = reason.Of(reason.New(reason.LeadsAfter, "node", before.Value.By))
	}
	return e
}

// vanished returns a node that has been absent for the whole wait although it
// did not say that it leaves, and of which that is not written down yet.
func (w *news) vanished(in situation) (record.Event, bool) {
	if len(in.absent) == 0 {
		return record.Event{}, false
	}
	for _, id := range in.mirror.NodeIDs() {
		since, absent := in.absentSince(id)
		last := record.Newest(in.node(id).Told)
		if !absent || !last.Exists() || last.Value.Kind == record.NodeLeft || w.lossReported[id] == last.Mod {
			continue
		}
		waited := in.clock.Sub(since)
		if waited < lostAfter(in) {
			in.wake(since.Add(lostAfter(in)))
			continue
		}
		if lossTold(in, id, last.Mod) {
			w.lossReported[id] = last.Mod
			continue
		}
		return record.Event{
			Kind: record.NodeLost, Node: id, Why: reason.Of(reason.New(reason.LeaseEnded, "waited", lostAfter(in))),
		}, true
	}
	return record.Event{}, false
}

// lossTold reports whether the loss of a node since it said something itself is
// written down, or was so long ago that the ring has gone round.
func lossTold(in situation, id cluster.NodeID, said int64) bool {
	round := len(in.mirror.Told) >= record.KeptEvents
	for _, v := range in.mirror.Told {
		if v.Value.Kind == record.NodeLost && v.Value.Node == id && v.Mod > said {
			return true
		}
		round = round && v.Mod > said
	}
	return round
}

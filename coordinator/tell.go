package coordinator

import (
	"fmt"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// What happens is told to people by events. Each rides in the transaction that
// makes it true, so an event never tells of what did not happen, and costs no
// transaction of its own. Two things are made true by none of ours: that this
// leader leads, and that a node has vanished. Those alone get one.

// tell is the operation that writes an event, numbered and dated.
func (c *Coordinator) tell(e record.Event) record.Op {
	if c.told == 0 { // since then nobody else has written any
		c.told = record.Newest(c.mirror.Told).Value.Seq
	}
	c.told++
	e.Seq, e.At = c.told, c.now
	return record.Put(record.EventKey(e.Seq), e)
}

// eventOf is what a transaction lets happen that people should know of; false if
// there is nothing. A change of phase is, where the move does not say otherwise.
func eventOf(m move) (record.Event, bool) {
	switch {
	case m.event.Kind != "":
		return m.event, true
	case m.note.Text == "":
		return record.Event{}, false
	}
	e := record.Event{Job: m.note.Job, Generation: m.note.Gen, Why: m.note.Text}
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
	case cluster.Starting, cluster.Running: // that all have started is told with its figures
	}
	return e, e.Kind != ""
}

// startedEvent tells of a generation all of whose workers were started.
func startedEvent(r record.Rescale, id cluster.JobID) record.Event {
	e := record.Event{
		Kind: record.JobRescaled, Job: id, Generation: r.Generation, From: r.From, To: r.To, Why: r.Why,
		Seconds: r.SignalS + r.SaveS + r.WaitS + r.CommitS + r.StartS, OwnS: r.OwnS,
	}
	if r.From == 0 {
		e.Kind = record.JobStarted
	}
	return e
}

// failedEvent tells of a member's failure.
func failedEvent(b blame, f formed) record.Event {
	e := record.Event{Kind: record.JobHalting, Job: f.ID, Generation: f.number(), Node: b.node, Why: b.text()}
	if b.failed.Kind == record.WorkerFailed {
		e.Kind = record.JobWorkerFailed
	}
	if b.failed.Rank >= 0 {
		e.Rank = &b.failed.Rank
	}
	return e
}

// tellNews writes down what no other transaction makes true, one at a time.
func (c *Coordinator) tellNews() {
	if c.cfg.Quiet || c.busy(&record.JobView{}) {
		return
	}
	if !c.announced {
		if c.announced = c.leadTold(); !c.announced {
			c.send(move{verb: "tell", event: c.leadEvent()})
			return
		}
	}
	if e, ok := c.vanished(); ok {
		c.send(move{verb: "tell", event: e, ifs: []record.Compare{record.Absent(record.AliveKey(e.Node))}})
	}
}

// leadTold reports whether it is written down that this leader leads.
func (c *Coordinator) leadTold() bool {
	for _, v := range c.mirror.Told {
		if v.Value.Kind == record.LeaderChanged && v.Value.Term == c.cfg.Token.Create {
			return true
		}
	}
	return false
}

// leadEvent tells that this leader leads, and who did before.
func (c *Coordinator) leadEvent() record.Event {
	e := record.Event{Kind: record.LeaderChanged, Term: c.cfg.Token.Create, By: c.mirror.Leaders[c.cfg.Token.Key].Value.Node, Why: "leads"}
	var before record.Versioned[record.Event]
	for _, v := range c.mirror.Told {
		if v.Value.Kind == record.LeaderChanged && v.Mod > before.Mod {
			before = v
		}
	}
	switch {
	case before.Exists() && before.Value.By == e.By:
		e.Why = "leads anew"
	case before.Exists():
		e.Why = "leads after " + before.Value.By
	}
	return e
}

// vanished returns a node that has been absent for the whole wait although it
// did not say that it leaves, and of which that is not written down yet.
func (c *Coordinator) vanished() (record.Event, bool) {
	if len(c.absent) == 0 {
		return record.Event{}, false
	}
	for _, id := range c.mirror.NodeIDs() {
		since, absent := c.absent[id]
		last := record.Newest(c.mirror.Node(id).Told)
		if !absent || !last.Exists() || last.Value.Kind == record.NodeLeft || c.mourned[id] == last.Mod {
			continue
		}
		waited := c.clock.Sub(since)
		if waited < c.lostAfter() {
			c.wake(since.Add(c.lostAfter()))
			continue
		}
		if c.lossTold(id, last.Mod) {
			c.mourned[id] = last.Mod
			continue
		}
		return record.Event{
			Kind: record.NodeLost, Node: id, Why: fmt.Sprintf("its lease ended, and it has not come back for %v", c.lostAfter()),
		}, true
	}
	return record.Event{}, false
}

// lossTold reports whether the loss of a node since it said something itself is
// written down, or was so long ago that the ring has gone round.
func (c *Coordinator) lossTold(id cluster.NodeID, said int64) bool {
	round := len(c.mirror.Told) >= record.KeptEvents
	for _, v := range c.mirror.Told {
		if v.Value.Kind == record.NodeLost && v.Value.Node == id && v.Mod > said {
			return true
		}
		round = round && v.Mod > said
	}
	return round
}

package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// move is a transaction about to be sent.
type move struct {
	verb   string
	job    *record.JobView // nil: it concerns no job
	ifs    []record.Compare
	then   []record.Op
	note   Note               // for the log once applied, if it has a text
	event  record.Event       // for people; without a kind it follows from the note
	claims []cluster.DeviceID // devices that it gives to the job
	name   string             // job name that it takes into use
}

// flight is a job's transaction on its way:
//
//	sent ──► applied: over
//	    ├──► conflict ──► reload: over
//	    ├──► too large ──► over; for a while the job's are small
//	    └──► unknown ──► reload: over, or, if it claims devices, settling
//
// Settling: a START without an answer may land late, when another job has been
// given its devices. So the devices stay claimed, and the state record is
// rewritten as it is until that is known to have been applied or refused;
// whichever of the two landed first has kept the other out.
type flight struct {
	id       string
	state    int64 // ModRevision of the state that was compared
	note     Note
	claims   []cluster.DeviceID
	name     string
	ifs      []record.Compare
	then     []record.Op
	small    bool          // as small as it can be made
	result   record.Result // 0 = on its way
	settling bool
	until    time.Time // refused for no compare's sake: not again before
}

// leaderAndState is how many compares send adds to those of a move.
const leaderAndState = 2

// send emits a transaction and makes its job wait for the outcome.
func (c *Coordinator) send(m move) bool {
	var id cluster.JobID
	if e, ok := eventOf(m); ok && !c.cfg.Quiet {
		m.then = append(m.then, c.tell(e))
	}
	f := &flight{note: m.note, claims: m.claims, name: m.name}
	var ifs []record.Compare
	if c.rule(LeaderCompare) {
		ifs = append(ifs, record.SameLife(c.cfg.Token.Key, c.cfg.Token.Create))
	}
	if m.job != nil {
		id, f.state = m.job.ID, m.job.State.Mod
		if c.rule(StateCompare) {
			ifs = append(ifs, record.Unchanged(record.StateKey(id), f.state))
		}
	}
	c.settled(id)
	for _, d := range f.claims {
		c.claims[d] = id
	}
	c.serial++
	f.id = fmt.Sprintf("%s %s #%d", m.verb, id, c.serial)
	c.flights[id], c.sent[f.id] = f, id
	txn := record.Txn{ID: f.id, If: append(ifs, m.ifs...), Then: m.then}
	if f.small = c.small(id); f.small {
		txn = txn.Small()
	}
	f.ifs, f.then = txn.If, txn.Then
	c.out.Txns = append(c.out.Txns, txn)
	return true
}

// busy reports whether the job has to wait for a transaction, or for someone to mend
// its records: a transaction would compare what is there no more, again and again.
// It sends the one that settles an unknown START.
func (c *Coordinator) busy(v *record.JobView) bool {
	f := c.flights[v.ID]
	switch {
	case v.Unreadable() != "":
		return true
	case f == nil:
		return false
	case !f.until.IsZero():
		if c.clock.Before(f.until) {
			c.wake(f.until)
			return true
		}
	case !f.settling:
		return true
	case v.State.Mod == f.state:
		return c.send(move{
			verb: "settle", job: v, claims: f.claims,
			then: []record.Op{record.Put(record.StateKey(v.ID), v.State.Value)},
		})
	}
	c.settled(v.ID)
	return false
}

// outcome ends a flight, or marks it as one that a reload has to clear up.
func (c *Coordinator) outcome(o record.Outcome) {
	id, ours := c.sent[o.ID]
	if !ours {
		return
	}
	f := c.flights[id]
	f.result = o.Result
	switch o.Result {
	case record.Applied:
		delete(c.refused, id)
		c.settled(id)
		c.landed(f, o.Revision)
		if f.note.Text != "" {
			c.note(f.note)
		}
	case record.Conflict:
		if errors.Is(o.Err, record.ErrTooLarge) && !f.small && c.rule(SmallerForm) {
			c.note(Note{Warn: true, Job: id, Text: fmt.Sprintf("commit %s: %v: trying less", f.id, o.Err)})
			c.settled(id)
			c.tight[id] = c.clock.Add(smallFor)
			return
		}
		if o.Err != nil {
			f.until = c.clock.Add(c.cfg.Interval)
			c.note(Note{Warn: true, Job: id, Text: fmt.Sprintf("commit %s: %v", f.id, o.Err)})
			return
		}
		c.out.Reload = true
		if c.again(id, f) {
			f.until = c.clock.Add(c.cfg.Interval)
			c.note(Note{Warn: true, Job: id, Text: fmt.Sprintf("commit %s: what it compares is not as the listing shows it: a record cannot be read", f.id)})
		}
	case record.Unknown:
		c.note(Note{Warn: true, Job: id, Text: fmt.Sprintf("commit %s: no answer: %v", f.id, o.Err)})
		c.out.Reload = true
	}
}

// refusal is a transaction that was refused because of what it compares.
type refusal struct {
	ifs   []record.Compare
	times int
}

// mostRefusals is how often in a row a transaction that compares the same is sent.
// What it is refused for once is known after a listing; it was not, if it is
// refused again: by then others wait for etcd, which is busy with our listings.
const mostRefusals = 3

// again reports whether the job's transaction has been refused too often for what
// no listing has shown.
func (c *Coordinator) again(id cluster.JobID, f *flight) bool {
	r := c.refused[id]
	if !slices.Equal(r.ifs, f.ifs) {
		r = refusal{ifs: f.ifs}
	}
	r.times++
	c.refused[id] = r
	return r.times >= mostRefusals
}

// reloaded clears up the flights whose fate the listing has shown.
func (c *Coordinator) reloaded() {
	for id, f := range c.flights {
		switch {
		case f.result == record.Unknown && len(f.claims) > 0 && c.rule(SettleUnknown):
			f.settling = true
		case f.result != 0 && f.until.IsZero():
			c.settled(id)
		}
	}
}

// smallFor is for how long a job's transactions are small after one was refused for
// its size. Mostly a single text was too long, and without an end nothing would be
// told of the job's life any more; one refusal in so many minutes costs etcd nothing.
const smallFor = 10 * time.Minute

// small reports whether the job's transactions are as small as can be for now.
func (c *Coordinator) small(id cluster.JobID) bool {
	until, refused := c.tight[id]
	return refused && c.clock.Before(until)
}

// settled takes a flight, if there is one, and its claims off the books.
func (c *Coordinator) settled(id cluster.JobID) {
	if f := c.flights[id]; f != nil {
		for _, d := range f.claims {
			delete(c.claims, d)
		}
		delete(c.flights, id)
		delete(c.sent, f.id)
	}
}

// landed takes our own writes in at once: the watch brings them again.
func (c *Coordinator) landed(f *flight, revision int64) {
	for _, op := range f.then {
		if op.Prefix {
			c.forget(op.Key, revision)
			continue
		}
		// The revision of creation is the watch's to tell; nothing asks it of the leader's own records.
		c.apply(record.Change{
			KV:      record.KV{Key: op.Key, Value: op.Value, CreateRevision: revision, ModRevision: revision},
			Deleted: op.Delete,
		})
	}
}

// claimed reports whether a START that may still land gives the device to a job other than this.
func (c *Coordinator) claimed(d cluster.DeviceID, job cluster.JobID) bool {
	id, ok := c.claims[d]
	return ok && id != job
}

package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// transactions builds transactions and knows which are in flight. A job has one at most.
type transactions struct {
	cfg     *Config
	time    *waits
	flights map[cluster.JobID]*flight          // "" = those of the cluster
	sent    map[string]cluster.JobID           // the same by the transaction's identifier
	claims  map[cluster.DeviceID]cluster.JobID // devices of STARTs that may still land
	tooBig  map[cluster.JobID]time.Time        // of which a transaction was too large for etcd: until when they are small
	refused map[cluster.JobID]refusal          // the last transaction that was refused, until one is applied
	serial  int                                // of the newest transaction
}

func newTransactions(cfg *Config, w *waits) *transactions {
	return &transactions{
		cfg: cfg, time: w, flights: map[cluster.JobID]*flight{}, sent: map[string]cluster.JobID{},
		claims: map[cluster.DeviceID]cluster.JobID{}, tooBig: map[cluster.JobID]time.Time{}, refused: map[cluster.JobID]refusal{},
	}
}

// flight is a transaction on its way:
//
//	sent ──► applied: over
//	    ├──► conflict ──► reload: over
//	    ├──► too large ──► over; for a while the job's are small
//	    └──► unknown ──► reload: over, or, if it claims devices, in doubt
//
// In doubt: a START without an answer may land late, when another job has been
// given its devices. So the devices stay claimed, and the state record is
// rewritten as it is until that is known to have been applied or refused;
// whichever of the two landed first has kept the other out. See ADR 10.
type flight struct {
	id      string
	state   int64 // ModRevision of the state that was compared
	note    Note
	claims  []cluster.DeviceID
	name    string
	ifs     []record.Compare // but for those of guard
	then    []record.Op
	small   bool          // as small as it can be made
	result  record.Result // 0 = on its way
	inDoubt bool
	until   time.Time // refused for no compare's sake: not again before
}

// addedCompares is how many compares build adds to those of a move that grants
// devices: of the leader's key, of the state, and the two of guard.
const addedCompares = 4

func (t *transactions) on(r Rule) bool { return t.cfg.Without&r == 0 }

// build makes a transaction of a move. Its job waits for the outcome.
func (t *transactions) build(m *move, v *view) record.Txn {
	var id cluster.JobID
	f := &flight{note: m.note, claims: m.claims, name: m.name}
	var ifs []record.Compare
	if t.on(LeaderCompare) {
		ifs = append(ifs, record.Unchanged(t.cfg.Token.Key, t.cfg.Token.Mod))
	}
	if m.job != nil {
		id, f.state = m.job.ID, m.job.State.Mod
		if t.on(StateCompare) {
			ifs = append(ifs, record.Unchanged(record.StateKey(id), f.state))
		}
	}
	t.over(id)
	for _, d := range f.claims {
		t.claims[d] = id
	}
	t.serial++
	f.id = fmt.Sprintf("%s %s #%d", m.verb, id, t.serial)
	t.flights[id], t.sent[f.id] = f, id
	txn := record.Txn{ID: f.id, If: append(ifs, m.ifs...), Then: m.then}
	if f.small = t.small(id); f.small {
		txn = txn.Small()
	}
	f.ifs = txn.If
	txn = guard(txn, v)
	f.then = txn.Then
	return txn
}

// clusterBusy reports whether a transaction that concerns no job is in flight.
func (t *transactions) clusterBusy() bool {
	busy, _ := t.busy(&record.JobView{})
	return busy
}

// busy reports whether the job has to wait for a transaction, or for a person to mend
// its records: a transaction would compare what is there no more, again and again.
// It may answer with the move that resolves a START in doubt.
func (t *transactions) busy(v *record.JobView) (bool, *move) {
	f := t.flights[v.ID]
	switch {
	case v.Unreadable() != "":
		return true, nil
	case f == nil:
		return false, nil
	case !f.inDoubt: // its outcome is still to come, or the time to try again (see abandon)
		return true, nil
	case v.State.Mod == f.state:
		return true, &move{
			verb: "resolve", job: v, claims: f.claims,
			then: []record.Op{record.Put(record.StateKey(v.ID), v.State.Value)},
		}
	}
	t.over(v.ID)
	return false, nil
}

// ending is what the outcome of a transaction makes of it.
type ending struct {
	landed *flight // it was applied
	reload bool    // only a listing shows what has become of it
	note   Note
}

// outcome ends a flight, or marks it as one that a reload has to clear up.
func (t *transactions) outcome(o record.Outcome) (e ending) {
	id, ours := t.sent[o.ID]
	if !ours {
		return e
	}
	f := t.flights[id]
	f.result = o.Result
	switch o.Result {
	case record.Applied:
		delete(t.refused, id)
		t.over(id)
		return ending{landed: f, note: f.note}
	case record.Conflict:
		if errors.Is(o.Err, record.ErrTooLarge) && !f.small && t.on(SmallerForm) {
			t.over(id)
			t.tooBig[id] = t.time.clock.Add(smallFor)
			return ending{note: Note{Warn: true, Job: id, Text: fmt.Sprintf("commit %s: %v: trying less", f.id, o.Err)}}
		}
		if o.Err != nil {
			f.until = t.time.clock.Add(t.cfg.Interval)
			return ending{note: Note{Warn: true, Job: id, Text: fmt.Sprintf("commit %s: %v", f.id, o.Err)}}
		}
		e.reload = true
		if t.again(id, f) {
			f.until = t.time.clock.Add(t.cfg.Interval)
			e.note = Note{Warn: true, Job: id, Text: fmt.Sprintf("commit %s: what it compares is not as the listing shows it: a record cannot be read", f.id)}
		}
	case record.Unknown:
		e.reload = true
		e.note = Note{Warn: true, Job: id, Text: fmt.Sprintf("commit %s: no answer: %v", f.id, o.Err)}
	}
	return e
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
func (t *transactions) again(id cluster.JobID, f *flight) bool {
	r := t.refused[id]
	if !slices.Equal(r.ifs, f.ifs) {
		r = refusal{ifs: f.ifs}
	}
	r.times++
	t.refused[id] = r
	return r.times >= mostRefusals
}

// reloaded clears up the flights whose fate the listing has shown.
func (t *transactions) reloaded() {
	for id, f := range t.flights {
		switch {
		case f.result == record.Unknown && len(f.claims) > 0 && t.on(ResolveUnknown):
			f.inDoubt = true
		case f.result != 0 && f.until.IsZero():
			t.over(id)
		}
	}
}

// smallFor is for how long a job's transactions are small after one was refused for
// its size. Mostly a single text was too long, and without an end nothing would be
// told of the job's life any more; one refusal in so many minutes costs etcd nothing.
const smallFor = 10 * time.Minute

// small reports whether the job's transactions are as small as can be for now.
func (t *transactions) small(id cluster.JobID) bool {
	until, refused := t.tooBig[id]
	return refused && t.time.clock.Before(until)
}

// over takes a flight, if there is one, and its claims off the books.
func (t *transactions) over(id cluster.JobID) {
	if f := t.flights[id]; f != nil {
		for _, d := range f.claims {
			delete(t.claims, d)
		}
		delete(t.flights, id)
		delete(t.sent, f.id)
	}
}

// abandon gives up what cannot land any more: STARTs without an answer whose job is
// gone, as they compare a state record that no longer exists; and transactions that
// were refused, once their wait is over, whether or not there is still a job that
// would try again.
func (t *transactions) abandon(exists func(cluster.JobID) bool) {
	for id, f := range t.flights {
		switch {
		case f.inDoubt && !exists(id):
			t.over(id)
		case f.until.IsZero():
		case t.time.clock.Before(f.until):
			t.time.wake(f.until)
		default:
			t.over(id)
		}
	}
}

// forget drops what is remembered of the transactions of a job that is gone.
func (t *transactions) forget(id cluster.JobID) {
	delete(t.refused, id)
	delete(t.tooBig, id)
}

// claimed reports whether a START that may still land gives the device to a job other than this.
func (t *transactions) claimed(d cluster.DeviceID, job cluster.JobID) bool {
	id, ok := t.claims[d]
	return ok && id != job
}

// claiming reports whether any START may still land.
func (t *transactions) claiming() bool { return len(t.claims) > 0 }

// flying reports whether the job has a transaction in flight.
func (t *transactions) flying(id cluster.JobID) bool { return t.flights[id] != nil }

// takesName returns the job that a transaction in flight gives the name to.
func (t *transactions) takesName(name string) (cluster.JobID, bool) {
	for id, f := range t.flights {
		if f.name == name {
			return id, true // at most one: the second would have found the first
		}
	}
	return "", false
}

// writing reports whether a transaction in flight writes this record.
func (t *transactions) writing(key string) bool {
	for _, f := range t.flights {
		if slices.ContainsFunc(f.then, func(op record.Op) bool { return op.Key == key }) {
			return true
		}
	}
	return false
}

// admitting reports whether a transaction in flight gives the job its name.
func (t *transactions) admitting(id cluster.JobID) bool {
	f := t.flights[id]
	return f != nil && f.name != ""
}

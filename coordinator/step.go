package coordinator

import (
	"cmp"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/coordinator/speed"
	"github.com/bellows-ml/bellows/record"
)

// Coordinator is one term of leadership. One goroutine owns it.
type Coordinator struct {
	cfg          *Config
	view         *view
	waits        *waits
	decisions    *decisions
	transactions *transactions
	preparations *preparations
	measures     *speed.Measures
	news         news
	out          Effects // of the Step that runs
}

// New begins a term. Its first event has to be a Loaded.
func New(cfg Config) *Coordinator {
	if cfg.Timing == (Timing{}) {
		cfg.Timing = DefaultTiming()
	}
	cfg.MaxTxnOps = cmp.Or(cfg.MaxTxnOps, record.DefaultMaxTxnOps)
	w := newWaits(&cfg)
	return &Coordinator{
		cfg: &cfg, view: newView(&cfg), waits: w, decisions: newDecisions(), transactions: newTransactions(&cfg, w), preparations: newPreparations(), measures: speed.New(cfg.Unmeasured), news: newNews(),
	}
}

// Step takes in what has happened, in order, and says what follows from all of
// it: a shell that has several events hands them over together, for each call
// looks at the whole cluster. now is time.Now() of the shell, with its monotonic
// reading, or virtual time; it does not run backwards.
func (c *Coordinator) Step(now time.Time, events ...Event) Effects {
	c.waits.begin(now)
	c.out = Effects{}
	for _, ev := range events {
		switch e := ev.(type) {
		case Loaded:
			c.load(e)
		case Changed:
			c.change(e)
		case Outcome:
			c.outcome(e.Outcome)
		case Decided:
			c.decided(e)
		case Tick:
		}
	}
	if c.view.loaded() {
		c.act()
	}
	c.out.WakeAt = c.waits.wakeAt
	return c.out
}

// Census counts what the records tell, as far as this leader knows them; false
// before it has read them.
func (c *Coordinator) Census(now time.Time) (record.Census, bool) {
	if !c.view.loaded() {
		return record.Census{}, false
	}
	return c.view.mirror.Census(now), true
}

// load takes a listing in. Transactions without an answer are cleared up by it;
// the waits for lost nodes go on: see watchNodes.
func (c *Coordinator) load(e Loaded) {
	if e.Revision < c.view.awaited {
		c.out.Reload = true // read before this leader's own last write
		return
	}
	c.unreadable(c.view.load(e)...)
	c.measures.TakeAll(c.view.mirror, c.waits.clock)
	c.transactions.reloaded()
}

// change takes in what a watch has seen, but for what a listing has told already.
func (c *Coordinator) change(e Changed) {
	if !c.view.loaded() {
		return
	}
	for _, ch := range e.Changes {
		if c.lost(ch.ModRevision) {
			return
		}
		if ch.ModRevision > c.view.listed {
			c.apply(ch)
		}
	}
}

// lost reports whether nothing is known any more, as a revision shows that etcd was
// restored from a backup. Nothing is decided then before everything was read anew.
func (c *Coordinator) lost(revision int64) bool {
	if c.view.loaded() && !c.view.leaps(revision) {
		return false
	}
	c.view.drop(revision)
	c.preparations = newPreparations() // of what is lost nothing is used
	c.out.Reload = true
	return true
}

// apply takes in one change.
func (c *Coordinator) apply(ch record.Change) {
	c.unreadable(c.view.apply(ch))
	c.measures.Take(c.view.mirror, record.Locate(ch.Key), c.waits.clock)
}

// outcome takes in what has become of a transaction. What it wrote is taken in at
// once: the watch brings it again. See ADR 11.
func (c *Coordinator) outcome(o record.Outcome) {
	end := c.transactions.outcome(o)
	c.out.Reload = c.out.Reload || end.reload
	if f := end.landed; f != nil && !c.lost(o.Revision) {
		for _, op := range f.then {
			if op.Prefix {
				c.unreadable(c.view.forget(op.Key, o.Revision)...)
				continue
			}
			// The revision of creation is the watch's to tell; nothing asks it of the leader's own records.
			c.apply(record.Change{
				KV:      record.KV{Key: op.Key, Value: op.Value, CreateRevision: o.Revision, ModRevision: o.Revision},
				Deleted: op.Delete,
			})
		}
	}
	if end.note.Message() != "" {
		c.note(end.note)
	}
}

// decided takes an answer in. Whatever has changed since the question is seen
// again when the targets are carried out.
func (c *Coordinator) decided(e Decided) {
	if c.view.loaded() {
		c.forgetGone()
	}
	if fault := takeAnswer(c.situation(), e); fault != "" {
		c.note(Note{Warn: true, Text: "decide: " + fault})
	}
}

// act looks at everything, and does what follows: first what concerns the
// cluster, then what is asked for, then what follows for each job. See rules.go.
func (c *Coordinator) act() {
	if c.cfg.NoCache {
		c.view.forgetDerived()
	}
	c.forgetGone()
	c.waits.watchNodes(c.view.mirror)
	c.perform(c.news.tell(c.situation()))
	c.perform(publishLimits(c.situation()))
	if c.view.paused().Exists() {
		c.decisions.pause()
	} else if m := review(c.situation()); m != nil {
		c.perform(m) // what is promised comes before what is asked
	} else {
		c.out.Ask = ask(c.situation())
	}
	c.requests()
	for _, r := range clusterRules {
		for _, m := range r.answer(c.situation()) {
			c.perform(m)
		}
	}
	for _, j := range c.view.jobs() {
		busy, resolving := c.transactions.busy(j.JobView)
		c.perform(resolving)
		if !busy {
			in := about(c.situation(), j)
			c.perform(afterParked(in, first(in, jobRules(j.state().Phase))))
		}
	}
	c.perform(recordDecision(c.situation()))
}

// requests carries out what users ask for, in the order in which it was written.
func (c *Coordinator) requests() {
	for _, q := range waitingRequests(c.view.mirror) {
		v := c.view.mirror.Job(q.job()) // of requests about nodes: none, which one of them at a time keeps busy
		busy, resolving := c.transactions.busy(v)
		c.perform(resolving)
		if !busy {
			c.perform(carryOut(about(c.situation(), c.view.read(v)), q))
		}
	}
}

// forgetGone drops what is remembered of jobs that are gone, and what was granted to
// jobs that take no part in decisions any more, whichever answer granted it and
// when: the question may have been asked before the job ended, and the answer have
// come while its end was on its way. What it was promised would keep devices idle
// to the next decision. When it is back, it is asked for again.
func (c *Coordinator) forgetGone() {
	c.transactions.abandon(func(id cluster.JobID) bool { return c.view.mirror.Job(id).State.Exists() })
	for _, id := range c.view.derivedSince() {
		j := c.view.find(id)
		if j == nil {
			c.waits.forget(id)
			c.transactions.forget(id)
			c.preparations.forget(id)
			c.measures.Forget(id)
			c.decisions.withdraw(id)
			continue
		}
		if in := about(c.situation(), j); in.target.Workers() > 0 && !takesPart(in) {
			c.decisions.withdraw(id)
			c.decisions.askAnew()
		}
	}
}

// situation is what rules about the cluster look at.
func (c *Coordinator) situation() situation {
	return situation{view: c.view, waits: c.waits, decisions: c.decisions, transactions: c.transactions, preparations: c.preparations, measures: c.measures, cfg: c.cfg}
}

// perform carries a move out: it notes what it makes of decisions, and sends its transaction.
func (c *Coordinator) perform(m *move) {
	if m == nil {
		return
	}
	c.decisions.take(m)
	if !m.sends() {
		return
	}
	if m.prepares != nil {
		c.preparations.note(m.job.ID, *m.prepares)
	} else if m.spends {
		c.preparations.forget(m.job.ID)
	}
	if e, ok := eventOf(m); ok && !c.cfg.Quiet {
		m.then = append(m.then, c.news.write(e, c.view.mirror, c.waits.now))
	}
	c.out.Txns = append(c.out.Txns, c.transactions.build(m, c.view))
}

// unreadable notes records that this version cannot read.
func (c *Coordinator) unreadable(errs ...error) {
	for _, err := range errs {
		if err != nil {
			c.note(Note{Warn: true, Text: err.Error()})
		}
	}
}

func (c *Coordinator) note(n Note) { c.out.Notes = append(c.out.Notes, n) }

package coordinator

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Coordinator is one term of leadership. One goroutine owns it.
type Coordinator struct {
	cfg    Config
	now    time.Time      // for records
	clock  time.Time      // the same with its monotonic reading, for waits: neither setting the wall clock nor another leader's shortens one
	mirror *record.Mirror // nil until loaded
	known  record.Known
	listed int64 // revision of the newest listing

	absent    map[cluster.NodeID]time.Time       // when the node's alive key was first seen to be missing
	waits     map[wait]begun                     // what is waited for
	flights   map[cluster.JobID]*flight          // "" = the decision's record
	sent      map[string]cluster.JobID           // the same by the transaction's identifier
	claims    map[cluster.DeviceID]cluster.JobID // devices of STARTs that may still land
	tight     map[cluster.JobID]time.Time        // of which a transaction was too large for etcd: until when they are small
	refused   map[cluster.JobID]refusal          // the last transaction that was refused, until one is applied
	targets   targets                            // what the last decisions granted
	round     round
	serial    int                                // of the newest transaction
	told      uint64                             // number of the newest event; 0 = not known yet
	mourned   map[cluster.NodeID]int64           // nodes whose loss is told, by the revision of their own last word
	seen      *picture                           // nil = draw it anew
	ground    *floor                             // the same; seen stands on it
	stands    map[cluster.NodeID]*stand          // of nodes that have not changed since they were drawn
	granted   map[cluster.JobID][]cluster.NodeID // where they say the job has devices, sorted
	ended     map[uint32]kept                    // what is kept of each user's jobs that have
	forms     map[cluster.JobID]*formed          // what has been read off each admitted job
	roster    []*formed                          // the same, sorted
	front     map[cluster.JobID]bool             // the first jobs of the queue
	stale     map[cluster.JobID]bool             // of which something has changed since
	unread    bool                               // all are stale
	announced bool                               // it is told that this leader leads
	calm      int                                // counts what may rouse every job
	none      record.GenerationView              // of jobs that have no generation; always empty

	// Valid during one Step.
	out     Effects
	usage   map[uint32]*record.Usage // what each user has; nil = not counted yet
	blocked map[cluster.JobID]string // why a granted start does not happen yet
}

// New begins a term. Its first event has to be a Loaded.
func New(cfg Config) *Coordinator {
	if cfg.Timing == (Timing{}) {
		cfg.Timing = DefaultTiming()
	}
	cfg.MaxTxnOps = cmp.Or(cfg.MaxTxnOps, record.DefaultMaxTxnOps)
	return &Coordinator{
		cfg:     cfg,
		absent:  map[cluster.NodeID]time.Time{},
		waits:   map[wait]begun{},
		flights: map[cluster.JobID]*flight{},
		sent:    map[string]cluster.JobID{},
		claims:  map[cluster.DeviceID]cluster.JobID{},
		refused: map[cluster.JobID]refusal{},
		tight:   map[cluster.JobID]time.Time{},
		targets: newTargets(),
		known:   record.Known{},
		mourned: map[cluster.NodeID]int64{},
		stands:  map[cluster.NodeID]*stand{},
		granted: map[cluster.JobID][]cluster.NodeID{},
		ended:   map[uint32]kept{},
		forms:   map[cluster.JobID]*formed{},
		stale:   map[cluster.JobID]bool{},
	}
}

// Step takes in what has happened, in order, and says what follows from all of
// it: a shell that has several events hands them over together, for each call
// looks at the whole cluster. now is time.Now() of the shell, with its monotonic
// reading, or virtual time; it does not run backwards.
func (c *Coordinator) Step(now time.Time, events ...Event) Effects {
	c.now, c.clock = now.Round(0).UTC(), now
	c.out = Effects{}
	c.blocked = map[cluster.JobID]string{}
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
	if c.mirror != nil {
		c.act()
	}
	return c.out
}

// Census counts what the records tell, as far as this leader knows them; false
// before it has read them.
func (c *Coordinator) Census(now time.Time) (record.Census, bool) {
	if c.mirror == nil {
		return record.Census{}, false
	}
	return c.mirror.Census(now), true
}

// act looks at everything and does what is to be done next.
func (c *Coordinator) act() {
	c.watchNodes()
	c.tellNews()
	c.publishLimits()
	if !c.pause() {
		c.ask()
	}
	c.requests()
	c.sweep()
	c.clear()
	c.trim()
	for _, f := range c.jobs() {
		if c.busy(f.JobView) || c.rests(f) {
			continue
		}
		before := c.out.WakeAt
		c.out.WakeAt = time.Time{}
		acted := c.advance(*f)
		if again := c.out.WakeAt; !acted && c.restful(f) {
			f.calm, f.again = c.calm, again
		}
		c.wake(before)
	}
	c.recordDecision()
}

// rests reports whether it is known that no rule has anything to do about the
// job: nothing of what they read has changed since they last looked. Most jobs
// rest most of the time, and there may be thousands.
func (c *Coordinator) rests(f *formed) bool {
	waits := f.state().Phase == cluster.Queued // then it does not matter to it who has which devices
	if f.calm == 0 || f.calm != c.calm && !waits || c.cfg.Restless || !f.again.IsZero() && !c.clock.Before(f.again) {
		return false
	}
	c.wake(f.again)
	return true
}

// restful reports whether the rules of the job's phase read nothing but the job
// itself, the floor, its target, its place at the front of the queue, and the
// time: then they need not look again. Those of jobs that are about to start or
// move look at what others hold.
func (c *Coordinator) restful(f *formed) bool {
	switch f.state().Phase {
	case cluster.Running:
		t, ok := c.targets.of[f.ID]
		return !ok || f.state().Pinned || t.Equal(f.has)
	case cluster.Backoff, cluster.Held, cluster.Succeeded, cluster.Failed, cluster.Stopped:
		return true
	case cluster.Queued:
		t, decided := c.targets.of[f.ID]
		return decided && t.Workers() == 0
	case cluster.Starting, cluster.Halting:
	}
	return false
}

// advance lets the first rule that applies to the job's phase act.
func (c *Coordinator) advance(f formed) bool {
	if c.regrant(f) {
		return true
	}
	acted := false
	switch f.state().Phase {
	case cluster.Queued:
		acted = c.commit(f) || c.stopIdle(f) || c.spentIdle(f) || c.pardon(f) || c.noOther(f) || c.awaitTransient(f) || c.hold(f) ||
			c.startWaiting(f) || c.explain(f)
	case cluster.Held:
		acted = c.commit(f) || c.stopIdle(f) || c.spentIdle(f) || c.pardon(f) || c.unhold(f)
	case cluster.Backoff:
		acted = c.commit(f) || c.stopIdle(f) || c.spentIdle(f) || c.retry(f)
	case cluster.Starting, cluster.Running:
		acted = c.commit(f) || c.succeed(f) || c.haltFailed(f) || c.haltLost(f) || c.haltStop(f) || c.haltSpent(f) ||
			c.haltPaused(f) || c.haltIdle(f) || c.started(f) || c.haltReading(f) || c.haltOverdue(f) || c.pardon(f) || c.rescale(f)
	case cluster.Halting:
		acted = c.commit(f) || c.fallBack(f) || c.over(f) || c.hurry(f) || c.hurryPaused(f) || c.stopAfter(f) || c.fence(f) || c.kill(f) || c.undead(f) || c.unfenced(f)
	case cluster.Succeeded, cluster.Failed, cluster.Stopped:
		acted = c.expire(f)
	}
	return acted || c.collect(f)
}

// wake asks for a Tick at t, if that is still to come.
func (c *Coordinator) wake(t time.Time) {
	if t.After(c.clock) && (c.out.WakeAt.IsZero() || t.Before(c.out.WakeAt)) {
		c.out.WakeAt = t
	}
}

func (c *Coordinator) note(n Note) { c.out.Notes = append(c.out.Notes, n) }

// list writes nodes for people.
func list(nodes []cluster.NodeID) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ", "), "[]")
}

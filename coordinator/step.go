package coordinator

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Coordinator is one term of leadership. One goroutine owns it.
type Coordinator struct {
	cfg    Config
	now    time.Time
	mirror *record.Mirror // nil until loaded

	absent  map[cluster.NodeID]time.Time // when the node's alive key was first seen to be missing
	flights map[cluster.JobID]*flight    // "" = the decision's record
	targets map[cluster.JobID]target     // what the last decisions granted
	written map[string]record.Change     // our own newest writes, until a listing has them
	round   round
	serial  int      // of the newest transaction
	seen    *picture // nil = draw it anew

	// Valid during one Step.
	out     Effects
	blocked map[cluster.JobID]string // why a granted start does not happen yet
}

// New begins a term. Its first event has to be a Loaded.
func New(cfg Config) *Coordinator {
	return &Coordinator{
		cfg:     cfg,
		absent:  map[cluster.NodeID]time.Time{},
		flights: map[cluster.JobID]*flight{},
		targets: map[cluster.JobID]target{},
		written: map[string]record.Change{},
	}
}

// Step takes one event in and says what follows. Calls need not come in the
// order of time, but now should not run backwards.
func (c *Coordinator) Step(now time.Time, ev Event) Effects {
	c.now = now.Round(0).UTC()
	c.out = Effects{}
	c.blocked = map[cluster.JobID]string{}
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
	if c.mirror != nil {
		c.act()
	}
	return c.out
}

// load replaces the mirror. What we know to have written since the listing
// was made stays in it: without it, devices just granted would look free. The
// waits for lost nodes begin anew: a node may have come and gone again while
// nobody watched.
func (c *Coordinator) load(e Loaded) {
	mirror, err := record.NewMirror(nil, e.Revision)
	if err != nil {
		panic("coordinator: an empty listing does not decode: " + err.Error())
	}
	c.mirror, c.seen = mirror, nil
	for _, kv := range e.KVs {
		c.apply(record.Change{KV: kv})
	}
	for key, ch := range c.written { // each key once, so the order is of no matter
		if ch.ModRevision > e.Revision {
			c.apply(ch)
		} else {
			delete(c.written, key)
		}
	}
	clear(c.absent)
	c.reloaded()
}

func (c *Coordinator) change(e Changed) {
	if c.mirror == nil {
		return // what came before the listing is in it
	}
	for _, ch := range e.Changes {
		c.apply(ch)
		if n, ok := aliveOf(ch.Key); ok && !ch.Deleted {
			delete(c.absent, n) // its wait begins anew, even if it is gone again by the end of this batch
		}
	}
}

// apply takes one change in. A record that this version cannot read is reported and left alone.
func (c *Coordinator) apply(ch record.Change) {
	c.seen = nil
	if err := c.mirror.Apply(ch); err != nil {
		c.note(Note{Warn: true, Text: err.Error()})
	}
}

// act looks at everything and does what is to be done next.
func (c *Coordinator) act() {
	c.watchNodes()
	if !c.pause() {
		c.ask()
	}
	c.requests()
	for _, f := range c.jobs() {
		if !c.busy(f.JobView) {
			c.advance(f)
		}
	}
	c.recordDecision()
}

// advance lets the first rule that applies to the job's phase act.
func (c *Coordinator) advance(f formed) {
	var rules []func(formed) bool
	switch f.state().Phase {
	case cluster.Queued, cluster.Suspended:
		rules = []func(formed) bool{c.commit, c.stopIdle, c.hold, c.startWaiting, c.explain}
	case cluster.Held:
		rules = []func(formed) bool{c.commit, c.stopIdle, c.unhold}
	case cluster.Backoff:
		rules = []func(formed) bool{c.commit, c.stopIdle, c.retry}
	case cluster.Starting, cluster.Running:
		rules = []func(formed) bool{
			c.commit, c.succeed, c.haltFailed, c.haltLost, c.haltStop, c.haltPaused, c.haltIdle, c.started, c.haltOverdue, c.rescale,
		}
	case cluster.Halting:
		rules = []func(formed) bool{c.commit, c.over, c.hurry, c.hurryPaused, c.stopAfter, c.fence, c.kill}
	case cluster.Succeeded, cluster.Failed, cluster.Stopped:
		rules = []func(formed) bool{c.expire}
	}
	for _, rule := range append(rules, c.collect) {
		if rule(f) {
			return
		}
	}
}

// wake asks for a Tick at t, if that is still to come.
func (c *Coordinator) wake(t time.Time) {
	if t.After(c.now) && (c.out.WakeAt.IsZero() || t.Before(c.out.WakeAt)) {
		c.out.WakeAt = t
	}
}

func (c *Coordinator) note(n Note) { c.out.Notes = append(c.out.Notes, n) }

// aliveOf returns the node whose alive key it is.
func aliveOf(key string) (cluster.NodeID, bool) {
	n := cluster.NodeID(strings.TrimSuffix(strings.TrimPrefix(key, record.NodesPrefix), "/alive"))
	return n, key == record.AliveKey(n)
}

// list writes nodes for people.
func list(nodes []cluster.NodeID) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ", "), "[]")
}

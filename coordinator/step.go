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
	now    time.Time        // for records
	clock  time.Time        // the same with its monotonic reading, for waits: setting the wall clock must not shorten one
	mirror *record.Mirror   // nil until loaded
	known  map[string]int64 // every key's newest revision that the mirror has taken in
	listed int64            // revision of the newest listing

	absent  map[cluster.NodeID]time.Time       // when the node's alive key was first seen to be missing
	flights map[cluster.JobID]*flight          // "" = the decision's record
	claims  map[cluster.DeviceID]cluster.JobID // devices of STARTs that may still land
	targets map[cluster.JobID]target           // what the last decisions granted
	round   round
	serial  int      // of the newest transaction
	seen    *picture // nil = draw it anew

	// Valid during one Step.
	out     Effects
	blocked map[cluster.JobID]string // why a granted start does not happen yet
}

// New begins a term. Its first event has to be a Loaded.
func New(cfg Config) *Coordinator {
	if cfg.Timing == (Timing{}) {
		cfg.Timing = DefaultTiming()
	}
	return &Coordinator{
		cfg:     cfg,
		absent:  map[cluster.NodeID]time.Time{},
		flights: map[cluster.JobID]*flight{},
		claims:  map[cluster.DeviceID]cluster.JobID{},
		targets: map[cluster.JobID]target{},
		known:   map[string]int64{},
	}
}

// Step takes one event in and says what follows. now is time.Now() of the shell,
// with its monotonic reading, or virtual time; it does not run backwards.
func (c *Coordinator) Step(now time.Time, ev Event) Effects {
	c.now, c.clock = now.Round(0).UTC(), now
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
			c.commit, c.succeed, c.haltFailed, c.haltLost, c.haltStop, c.haltPaused, c.haltIdle, c.started, c.haltReading, c.haltOverdue, c.rescale,
		}
	case cluster.Halting:
		rules = []func(formed) bool{c.commit, c.fallBack, c.over, c.hurry, c.hurryPaused, c.stopAfter, c.fence, c.kill}
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
	if t.After(c.clock) && (c.out.WakeAt.IsZero() || t.Before(c.out.WakeAt)) {
		c.out.WakeAt = t
	}
}

func (c *Coordinator) note(n Note) { c.out.Notes = append(c.out.Notes, n) }

// list writes nodes for people.
func list(nodes []cluster.NodeID) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ", "), "[]")
}

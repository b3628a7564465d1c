package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// chaos is a node under a leader that keeps the protocol, with everything else
// going wrong in random order: the agent dies between any two actions, actions
// are carried out late and in any order, shims and workers die, the lease is
// lost. After each step the promises of the package are checked.
type chaos struct {
	*model
	rng     *rand.Rand
	job     cluster.JobID
	newest  cluster.Generation
	workers map[record.JobGen]int // processes that really exist
	begun   map[record.JobGen]bool
	pending []Action // planned once, not yet carried out
	log     []string
	fault   error          // a promise that an action broke
	did     map[string]int // what happened, and how often
}

// leastOf1500 is how often each thing happens at least in so many plays: a third of
// what it does as this is written. What no longer happens would otherwise pass unseen.
var leastOf1500 = map[string]int{
	"BACK":           1226,
	"COLLECT":        455,
	"CRASH":          2210,
	"Digest":         186,
	"Forget":         455,
	"HALT":           1448,
	"LOST":           1368,
	"Merge":          47,
	"PEER":           2973,
	"Push":           3281,
	"RemoveRun":      820,
	"START":          1595,
	"StartShim":      1049,
	"Sweep":          899,
	"Verify":         509,
	"WITHDRAW":       1525,
	"WriteAck":       3191,
	"WriteOffer":     39,
	"WriteSaved":     130,
	"ack failed":     644,
	"ack held":       455,
	"ack started":    495,
	"ack stopped":    1595,
	"agent dies":     2210,
	"damaged":        165,
	"digest failed":  58,
	"directory lost": 141,
	"end":            759,
	"exec":           515,
	"lease lost":     2192,
	"live":           769,
	"merge failed":   54,
	"refuse":         88,
	"retire":         706,
	"shim":           48,
}

func TestNothingOverlapsWhateverHappens(t *testing.T) {
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 300
	}
	did := map[string]int{}
	for seed := range seeds {
		c := &chaos{
			model: newModel(), rng: rand.New(rand.NewPCG(seed, 1)), job: "j",
			workers: map[record.JobGen]int{}, begun: map[record.JobGen]bool{}, did: did,
		}
		c.strict = seed%3 != 0
		if err := c.play(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, lastLines(c.log))
		}
	}
	for what, least := range leastOf1500 {
		if least = least * int(seeds) / 1500; did[what] < least {
			t.Errorf("%q happened %d times in %d plays, and should have %d times at least", what, did[what], seeds, least)
		}
	}
	t.Log(did)
}

func lastLines(log []string) string {
	s := ""
	for _, l := range log[max(0, len(log)-40):] {
		s += l + "\n"
	}
	return s
}

func (c *chaos) play() error {
	for range 150 {
		c.step()
		if err := c.check(); err != nil {
			return err
		}
	}
	return c.calmDown()
}

func (c *chaos) note(format string, args ...any) {
	what, _, _ := strings.Cut(strings.TrimSpace(format), " ")
	c.did[what]++
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

func (c *chaos) step() {
	switch n := c.rng.IntN(100); {
	case n < 25:
		c.lead()
	case n < 50:
		c.live()
	case n < 53:
		c.did["agent dies"]++
		c.crash()
	case n < 56:
		c.did["lease lost"]++
		c.loseLease()
	default:
		c.act()
	}
}

// act plans, and carries out a few of all the actions that are due, in any
// order. Old ones may come late; one that is under way is not begun twice.
func (c *chaos) act() {
	for _, a := range c.plan() {
		if runless(a, c.runs[a.Of()]) {
			c.fault = fmt.Errorf("%s is planned without a run", a)
			return
		}
		if _, ok := a.(StartShim); ok {
			// A start is begun as it is planned, by the goroutine that knows no
			// later fact; what takes its time is the starting.
			c.perform(a)
			continue
		}
		if !slices.ContainsFunc(c.pending, func(b Action) bool { return b.Of() == a.Of() && b.Lane() == a.Lane() }) {
			c.pending = append(c.pending, a)
		}
	}
	for range 1 + c.rng.IntN(3) {
		if len(c.pending) == 0 {
			return
		}
		i := c.rng.IntN(len(c.pending))
		a := c.pending[i]
		c.pending = slices.Delete(c.pending, i, i+1)
		c.perform(a)
	}
}

// runless reports whether an action is about a run that is not there. The host
// acts at once, on the runs that it has told Plan of.
func runless(a Action, r *Run) bool {
	switch a.(type) {
	case Push, Digest, WriteSaved, Merge, WriteOffer, RemoveRun: // a sweep makes one
		return r == nil || r.Shim == Absent
	default:
		return false
	}
}

func (c *chaos) perform(a Action) {
	jg := a.Of()
	switch a := a.(type) {
	case Digest:
		if c.rng.IntN(4) == 0 {
			c.did["digest failed"]++
			c.run(jg).Digests[a.Step] = Work[record.Saved]{Done: true, Err: "input/output error"}
			return
		}
	case Merge:
		if c.rng.IntN(2) == 0 {
			c.did["merge failed"]++
			c.run(jg).Merges[a.Step] = Work[record.Offer]{Done: true, Err: "is a directory"}
			return
		}
	case StartShim:
		if g := c.goal(jg); !g.Permit || g.Plan.World.Members[0].AliveRev != c.alive {
			c.fault = fmt.Errorf("generation %d started with permit %t in life %d", jg.Generation, g.Permit, c.alive)
		}
		if r := c.run(jg); a.Plan.Resume != nil && !r.Verified || r.Refused != nil {
			c.fault = fmt.Errorf("generation %d started with a checkpoint that was not verified", jg.Generation)
		}
	case Verify:
		if c.rng.IntN(4) == 0 {
			c.note("  damaged %d", jg.Generation)
			c.run(jg).Refused = &record.Failed{Kind: record.CheckpointDamaged, Reason: "damaged"}
			return
		}
	case WriteAck:
		if a.Ack == record.AckStopped {
			c.fault = c.unsaved(jg)
		}
		// The transaction compares that the acknowledgement is absent and that this is the same life.
		if c.alive == 0 || c.has(jg, a.Ack) {
			return
		}
	case WriteSaved, WriteOffer, Forget:
		if c.alive == 0 {
			return
		}
	case Push:
		if c.run(jg).Shim != Live {
			return
		}
	case Sweep:
		c.workers[jg] = 0
	default:
	}
	c.note("  %s", a)
	c.did[strings.TrimPrefix(fmt.Sprintf("%T", a), "agent.")]++
	if ack, ok := a.(WriteAck); ok {
		c.did["ack "+string(ack.Ack)]++
	}
	c.carryOut(a)
}

// unsaved finds a save that is on its way although its run is about to be
// acknowledged as stopped.
func (c *chaos) unsaved(jg record.JobGen) error {
	r, g := c.run(jg), c.goal(jg)
	if r.Report == nil || len(r.Report.Saves) == 0 {
		return nil
	}
	newest := int64(-1)
	for _, s := range r.Report.Saves {
		newest = max(newest, s.Step)
	}
	_, saved := g.Saved[newest]
	_, offered := g.Offers[newest]
	saved = saved || r.Digests[newest].Err != "" // given up
	offered = offered || r.Merges[newest].Err != "" || r.Digests[newest].Err != ""
	alone := len(g.Plan.World.Members) == 1
	if !saved || alone && !offered && newestStep(g.Offers) < newest {
		return fmt.Errorf("generation %d stops with step %d on its way: saved %t, offered %t", jg.Generation, newest, saved, offered)
	}
	return nil
}

func (c *chaos) has(jg record.JobGen, a record.Ack) bool {
	acks := c.goal(jg).Acks
	switch a {
	case record.AckStarted:
		return acks.Started.Exists()
	case record.AckHeld:
		return acks.Held.Exists()
	case record.AckFailed:
		return acks.Failed.Exists()
	case record.AckStopped:
		return acks.Stopped.Exists()
	case record.AckCleared:
		return acks.Cleared.Exists()
	}
	return false
}

// lead is the leader's part: start, halt, withdraw, fence and collect, by the rules.
func (c *chaos) lead() {
	last := record.JobGen{Job: c.job, Generation: c.newest}
	g := c.goals[last]
	switch n := c.rng.IntN(4); {
	case c.newest == 0 || g == nil || !g.Permit && c.over(last):
		if c.alive == 0 {
			return
		}
		c.newest++
		next := record.JobGen{Job: c.job, Generation: c.newest}
		members := []cluster.Member{{Node: c.node, AliveRev: c.alive, Devices: []cluster.DeviceID{"d0", "d1"}}}
		if c.rng.IntN(2) == 0 {
			members = append(members, cluster.Member{Node: "n2", AliveRev: 5, FirstRank: 2, Devices: []cluster.DeviceID{"e"}})
		}
		x := c.goal(next)
		x.Plan, x.Permit, x.Spec = &record.Plan{World: cluster.World{Members: members}}, true, &record.Submitted{}
		if c.rng.IntN(2) == 0 {
			x.Plan.Resume = &record.Checkpoint{Step: 1}
		}
		c.note("START %d alive=%d members=%d", c.newest, c.alive, len(members))
	case n == 0 && g.Halt == nil:
		g.Halt = &record.Halt{Save: c.rng.IntN(3) > 0}
		c.note("HALT %d save=%t", c.newest, g.Halt.Save)
	case n == 1 && g.Halt != nil:
		g.Permit = false
		c.note("WITHDRAW %d", c.newest)
	case n == 2:
		p := c.peer(last, "n2")
		switch c.rng.IntN(3) {
		case 0:
			p.Failed = &record.Failed{Reason: "over there"}
		case 1:
			p.Gone = true
		case 2: // what this node has saved, too
			for step := range g.Saved {
				p.Saved[step] = record.Saved{Ranks: []int{2}}
			}
		}
		c.note("PEER %d failed=%t gone=%t saved=%d", c.newest, p.Failed != nil, p.Gone, len(p.Saved))
	case n == 3:
		for jg, old := range c.goals {
			if jg.Generation+1 < c.newest && old.Plan != nil && old.Acks.Stopped.Exists() {
				old.Plan, old.Permit, old.Halt = nil, false, nil
				c.note("COLLECT %d", jg.Generation)
				return
			}
		}
	}
}

// over reports whether the leader may form a new generation after jg: this node
// has stopped it, or was fenced, which takes a lost lease and the wait for its deadline.
func (c *chaos) over(jg record.JobGen) bool {
	g := c.goal(jg)
	return g.Acks.Stopped.Exists() || g.Plan.World.Members[0].AliveRev != c.alive
}

// live is the part of shims and workers.
func (c *chaos) live() {
	for jg, r := range c.runs {
		if c.rng.IntN(2) == 0 {
			continue
		}
		switch {
		case r.Shim == Starting && c.rng.IntN(10) == 0:
			r.Shim, r.Refused = Absent, &record.Failed{Kind: record.NodeRefused, Reason: "no"}
			c.note("refuse %d", jg.Generation)
		case r.Shim == Starting:
			r.Shim = Live
			c.report(jg)
			c.note("live %d", jg.Generation)
		case r.Shim == Live:
			c.shim(jg, r)
		}
	}
}

func (c *chaos) shim(jg record.JobGen, r *Run) {
	rep := c.report(jg)
	w := r.Pushed
	told := w != nil && (w.Kill != "" || w.Halt != nil && !w.Halt.Save)
	switch n := c.rng.IntN(12); {
	case rep.Stopped != nil:
		if w != nil && w.Retire {
			r.Shim, r.Pushed = Dead, nil
			c.note("retire %d", jg.Generation)
		}
	case told:
		c.end(jg, rep, &record.Stopped{})
	case len(rep.Workers) == 0 && !c.begun[jg]:
		c.begun[jg] = true
		c.workers[jg] = 2
		rep.Workers = []record.Worker{{Rank: 0}, {Rank: 1}}
		c.note("exec %d", jg.Generation)
	case w != nil && w.Halt != nil && rep.Held == nil:
		rep.Held = &record.Held{SDK: true, Begun: 3}
	case n < 5:
		step := int64(c.rng.IntN(20))
		rep.Saves = append(rep.Saves, Save{Step: step, Rank: 0}, Save{Step: step, Rank: 1})
	case n == 5:
		rep.Failed = &record.Failed{Kind: record.WorkerFailed, Reason: "died"}
		c.end(jg, rep, &record.Stopped{})
	case n == 6:
		c.end(jg, rep, &record.Stopped{Finished: true})
	case n == 7:
		r.Shim, r.Pushed = Dead, nil
		c.note("shim dies %d", jg.Generation)
	}
	if p := r.Plain; rep.Stopped != nil && (p == nil || !p.Final) {
		r.Plain = &Plain{Step: -1, Final: true}
	}
}

func (c *chaos) end(jg record.JobGen, rep *Report, s *record.Stopped) {
	c.workers[jg] = 0
	rep.Stopped = s
	c.note("end %d", jg.Generation)
}

// crash ends the agent: what it had in mind is lost, shims and records are not.
// Now and then a run directory goes with it, under the shim and its workers.
func (c *chaos) crash() {
	c.pending = nil
	for _, g := range c.goals {
		g.Fresh = false
	}
	for jg, r := range c.runs {
		r.Pushed, r.Refused, r.Swept = nil, nil, false
		clear(r.Digests)
		clear(r.Merges)
		if r.Shim != Absent && c.rng.IntN(8) == 0 {
			c.note("LOST DIRECTORY %d", jg.Generation)
			c.did["directory lost"]++
			delete(c.runs, jg)
			continue
		}
		switch r.Shim {
		case Starting:
			r.Shim = []Shim{Live, Dead}[c.rng.IntN(2)]
		case Absent:
			delete(c.runs, jg)
		case Live, Dead:
		}
	}
	c.note("CRASH")
}

// loseLease ends this life of the node. Where another node may take over, the
// deadline has passed by the time a new life begins.
func (c *chaos) loseLease() {
	if c.alive != 0 {
		c.alive = 0
		c.note("LOST")
		return
	}
	for jg, r := range c.runs {
		if c.strict && r.Shim == Live && c.workers[jg] > 0 {
			rep := c.report(jg)
			rep.Failed = &record.Failed{Kind: record.NodeFenced, Reason: "deadline"}
			c.end(jg, rep, &record.Stopped{})
		}
	}
	c.revision++
	c.alive = c.revision
	c.note("BACK alive=%d", c.alive)
}

func (c *chaos) check() error {
	if c.fault != nil {
		return c.fault
	}
	running := 0
	for jg, n := range c.workers {
		if n == 0 {
			continue
		}
		running++
		if c.goals[jg] != nil && c.goals[jg].Acks.Stopped.Exists() {
			return fmt.Errorf("generation %d is acknowledged as stopped and has workers", jg.Generation)
		}
	}
	if running > 1 {
		return fmt.Errorf("workers of %d generations at once", running)
	}
	for jg, g := range c.goals {
		a := g.Acks
		if a.Stopped.Exists() && later(a.Stopped.Create, a.Started.Create, a.Held.Create, a.Failed.Create) ||
			a.Failed.Exists() && later(a.Failed.Create, a.Started.Create, a.Held.Create) ||
			a.Held.Exists() && later(a.Held.Create, a.Started.Create) {
			return fmt.Errorf("generation %d: acknowledged out of order: %+v", jg.Generation, a)
		}
	}
	return nil
}

// later reports whether any of others came after last.
func later(last int64, others ...int64) bool {
	return slices.ContainsFunc(others, func(r int64) bool { return r > last })
}

// calmDown lets nothing go wrong any more, has the leader end everything, and
// demands that nothing is left within a bounded number of steps.
func (c *chaos) calmDown() error {
	if c.alive == 0 {
		c.loseLease()
	}
	for range 200 {
		for _, g := range c.goals {
			if g.Plan == nil {
				continue
			}
			g.Permit = false
			for i := range g.Peers {
				g.Peers[i].Gone = true
			}
		}
		for _, r := range c.runs {
			r.Quiet = time.Hour
			if r.Plain == nil || !r.Plain.Final {
				r.Plain = &Plain{Step: -1, Final: r.gone()}
			}
		}
		c.live()
		c.act()
		if err := c.check(); err != nil {
			return err
		}
	}
	if left := c.plan(); len(left) > 0 {
		return fmt.Errorf("never at rest: still wants %v", left)
	}
	for jg, g := range c.goals {
		if g.Plan != nil && !g.Acks.Stopped.Exists() {
			return fmt.Errorf("generation %d was never acknowledged as stopped", jg.Generation)
		}
	}
	for jg, r := range c.runs {
		if r.Shim != Absent {
			return fmt.Errorf("a run of generation %d is left, shim state %d", jg.Generation, r.Shim)
		}
	}
	return nil
}

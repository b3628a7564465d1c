package agent_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// chaos is a node under a leader that keeps the protocol, with everything else
// going wrong in random order: the agent dies between any two actions, actions take
// their time and fail, shims and workers die, the lease is lost. After each step the
// promises of the package are checked.
type chaos struct {
	net    *machine.Network
	m      *machine.Machine
	rng    *rand.Rand
	crowd  int
	newest cluster.Generation
	plans  map[cluster.Generation]record.Plan
	halted map[cluster.Generation]bool
	alive  map[cluster.Generation]int // workers
	saved  map[cluster.Generation]int64
	lost   map[cluster.Generation]map[int64]bool // steps that were given up
	absent time.Duration                         // since when the alive key of the newest plan is gone; 0 = it is there
	calm   bool
	log    []string
	fault  error          // a promise that an action broke
	did    map[string]int // what happened, and how often
}

const chaosJob cluster.JobID = "j"

// leastOf400 is how often each thing happens at least in so many plays: a third of
// what it does as this is written. What no longer happens would otherwise pass unseen.
var leastOf400 = map[string]int{
	"COLLECT":        432,
	"Digest":         337,
	"Forget":         432,
	"HALT":           670,
	"Merge":          186,
	"PEER":           642,
	"Push":           3669,
	"RemoveRun":      506,
	"START":          726,
	"STOP":           201,
	"StartShim":      547,
	"Sweep":          165,
	"Verify":         327,
	"WITHDRAW":       648,
	"WriteOffer":     78,
	"WriteSaved":     328,
	"ack failed":     378,
	"ack held":       146,
	"ack started":    471,
	"ack stopped":    726,
	"agent dies":     797,
	"cut off":        805,
	"damaged":        68,
	"digest failed":  67,
	"directory lost": 142,
	"exec":           471,
	"exit 0":         66,
	"exit 1":         72,
	"lease lost":     791,
	"merge failed":   100,
	"refused":        40,
	"save":           350,
	"shim dies":      112,
	"shim hangs":     109,
}

func TestNothingOverlapsWhateverHappens(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 100
	}
	did := map[string]int{}
	for seed := range seeds {
		c := newChaos(seed, did)
		if err := c.play(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(c.log[max(0, len(c.log)-40):], "\n"))
		}
	}
	for what, least := range leastOf400 {
		if least = least * int(seeds) / 400; did[what] < least {
			t.Errorf("%q happened %d times in %d plays, and should have %d times at least", what, did[what], seeds, least)
		}
	}
	t.Log(did)
}

func newChaos(seed uint64, did map[string]int) *chaos {
	c := &chaos{
		net: machine.NewNetwork(), rng: rand.New(rand.NewPCG(seed, 1)), crowd: 3, did: did,
		plans: map[cluster.Generation]record.Plan{}, halted: map[cluster.Generation]bool{}, alive: map[cluster.Generation]int{},
		saved: map[cluster.Generation]int64{}, lost: map[cluster.Generation]map[int64]bool{},
	}
	if seed%3 == 0 {
		c.crowd = 1
	}
	c.m = machine.New(machine.Config{
		Node: "n1", Dawn: dawn, Leases: c.net.Memory, Crowd: func() int { return c.crowd }, Script: c, Outside: c.net,
		Faults: machine.Faults{
			Begun: c.begins, Executed: c.executed, Ended: func(s *machine.Shim) { c.alive[s.Generation] = 0 },
			Reacts: func() time.Duration { return c.upTo(time.Second) },
			Takes:  func(agent.Action) time.Duration { return c.upTo(3 * time.Second) },
			Dies:   func(*machine.Shim) time.Duration { return c.upTo(500 * time.Millisecond) },
			Shimless: func(record.JobGen) *record.Failed {
				if !c.happens(12, "refused") {
					return nil
				}
				return &record.Failed{Kind: record.NodeRefused, Reason: "no", Rank: -1}
			},
			Damaged: func(record.Checkpoint) bool { return c.happens(4, "damaged") },
			Lost: func(a agent.Digest) string {
				return c.givesUp(c.happens(4, "digest failed"), a.Generation, a.Step)
			},
			Unmergeable: func(a agent.Merge) string {
				return c.givesUp(c.happens(2, "merge failed"), a.Generation, a.Step)
			},
		},
	})
	c.m.Devices = []cluster.Device{{ID: "d0", Health: cluster.Healthy}, {ID: "d1", Health: cluster.Healthy}}
	c.net.Connect(c.m)
	return c
}

func (c *chaos) upTo(most time.Duration) time.Duration {
	if c.calm || c.rng.IntN(3) == 0 {
		return 0
	}
	return time.Duration(c.rng.Int64N(int64(most)))
}

// happens is a fault, once in so many times.
func (c *chaos) happens(once int, what string) bool {
	if c.calm || c.rng.IntN(once) > 0 {
		return false
	}
	c.did[what]++
	return true
}

func (c *chaos) givesUp(fails bool, g cluster.Generation, step int64) string {
	if !fails {
		return ""
	}
	if c.lost[g] == nil {
		c.lost[g] = map[int64]bool{}
	}
	c.lost[g][step] = true
	return "input/output error"
}

func (c *chaos) note(format string, args ...any) {
	what, _, _ := strings.Cut(format, " %")
	c.did[what]++
	c.log = append(c.log, fmt.Sprintf("%s "+format, append([]any{c.net.Now()}, args...)...))
}

func (c *chaos) breaks(format string, args ...any) {
	if c.fault == nil {
		c.fault = fmt.Errorf(format, args...)
	}
}

// begins holds each action against what may be done now.
func (c *chaos) begins(a agent.Action) {
	g := a.Of().Generation
	what := strings.TrimPrefix(fmt.Sprintf("%T", a), "agent.")
	c.log = append(c.log, fmt.Sprintf("%s   %s", c.net.Now(), a))
	records := c.net.Records()
	gen := records.Job(chaosJob).Generation(g)
	switch a := a.(type) {
	case agent.StartShim:
		if life := c.plans[g].World.Members[0].AliveRev; !gen.Permit.Exists() || life != c.m.Life() {
			c.breaks("generation %d starts with permit %t, planned for life %d in life %d", g, gen.Permit.Exists(), life, c.m.Life())
		}
	case agent.WriteAck:
		what = "ack " + string(a.Ack)
		if a.Ack == record.AckStopped {
			c.stops(a.Of())
		}
	default:
	}
	c.did[what]++
}

// stops finds workers of a generation that is about to be acknowledged as stopped,
// and a save of it that is on its way.
func (c *chaos) stops(jg record.JobGen) {
	g := jg.Generation
	if c.alive[g] > 0 {
		c.breaks("generation %d is acknowledged as stopped, and has workers", g)
	}
	newest, ok := c.saved[g]
	own := c.net.Records().Node(c.m.Node)
	if !ok || c.lost[g][newest] || len(own.Acks[jg].Failed.Value.Reason) > 0 {
		return
	}
	alone := len(c.plans[g].World.Members) == 1
	if !own.Saved[jg][newest].Exists() || alone && !own.Offers[jg][newest].Exists() {
		c.breaks("generation %d stops with step %d on its way: saved %t, offered %t",
			g, newest, own.Saved[jg][newest].Exists(), own.Offers[jg][newest].Exists())
	}
}

func (c *chaos) executed(s *machine.Shim) {
	c.note("exec %d", s.Generation)
	for g, n := range c.alive {
		if n > 0 {
			c.breaks("workers of generations %d and %d at once", g, s.Generation)
		}
	}
	c.alive[s.Generation] = s.Member.Processes()
}

// Run, Hold, Stop and Terminate implement machine.Script.
func (c *chaos) Run(s *machine.Shim)       { s.Connect() }
func (c *chaos) Hold(s *machine.Shim)      { s.Holds(3) }
func (c *chaos) Terminate(s *machine.Shim) { s.Exit(143) }
func (c *chaos) Stop(s *machine.Shim, after int64) {
	c.save(s, after)
	s.Exit(0)
}

func (c *chaos) save(s *machine.Shim, step int64) {
	if s.Running() && step > c.saved[s.Generation] {
		c.note("save %d of %d", step, s.Generation)
		c.saved[s.Generation] = step
		s.Saved(step, -1)
	}
}

func (c *chaos) play() error {
	c.net.Pass(time.Second)
	for range 120 {
		switch n := c.rng.IntN(20); {
		case n < 9:
			c.lead()
		case n < 15:
			c.live()
		case n < 16:
			c.restart()
		case n < 17:
			c.note("cut off")
			c.m.CutOff(c.net.Now() + c.upTo(20*time.Second))
		case n < 18 && c.m.Life() != 0:
			c.note("lease lost")
			c.write(record.Delete(record.AliveKey(c.m.Node)))
		}
		c.pass(c.upTo(5 * time.Second))
		if err := c.check(); err != nil {
			return err
		}
	}
	return c.calmDown()
}

// pass lets time pass, and notes for how long the newest plan's node is gone.
func (c *chaos) pass(length time.Duration) {
	for until := c.net.Now() + length; ; {
		life := c.net.Records().Node(c.m.Node).Alive.Create
		switch plan, ok := c.plans[c.newest]; {
		case !ok || plan.World.Members[0].AliveRev == life:
			c.absent = 0
		case c.absent == 0:
			c.absent = c.net.Now()
		}
		if c.net.Now() >= until {
			return
		}
		c.net.Pass(min(500*time.Millisecond, until-c.net.Now()))
	}
}

func (c *chaos) write(ops ...record.Op) {
	if out := c.net.Commit(record.Txn{ID: "leader", Then: ops}); out.Result != record.Applied {
		c.breaks("%v: %v", ops, out.Err)
	}
}

// lead is the leader's part: start, halt, withdraw, fence and collect, by the rules.
func (c *chaos) lead() {
	g := c.newest
	gen := c.net.Records().Job(chaosJob).Generation(g)
	switch n := c.rng.IntN(5); {
	case g == 0 || !gen.Permit.Exists() && c.over(g):
		c.start()
	case n == 0 && !c.halted[g]:
		c.halted[g] = true
		at := dawn.Add(c.net.Now())
		halt := record.Halt{Why: reason.Said("asked to"), Save: c.rng.IntN(3) > 0, At: at, Deadline: at.Add(time.Minute)}
		c.note("HALT %d save=%t", g, halt.Save)
		c.write(record.Put(record.HaltKey(chaosJob, g), halt))
	case n == 1 && c.halted[g] && gen.Halt.Value.Save && gen.Halt.Value.StopAfter == nil && gen.Permit.Exists():
		halt, after := gen.Halt.Value, c.saved[g]+4
		halt.StopAfter = &after
		c.note("STOP %d after=%d", g, after)
		c.write(record.Put(record.HaltKey(chaosJob, g), halt))
	case n == 2 && c.halted[g]:
		c.note("WITHDRAW %d", g)
		c.write(record.Delete(record.PermitKey(chaosJob, g)))
	case n == 3:
		c.peer(g)
	default:
		c.collect()
	}
}

func (c *chaos) start() {
	life := c.net.Records().Node(c.m.Node).Alive.Create
	if life == 0 {
		return
	}
	c.newest++
	g := c.newest
	plan := record.Plan{World: cluster.World{Job: chaosJob, Generation: g, BatchSize: 8, Members: []cluster.Member{
		{Node: c.m.Node, AliveRev: life, Devices: []cluster.DeviceID{"d0", "d1"}},
	}}}
	if c.rng.IntN(2) == 0 {
		plan.World.Members = append(plan.World.Members, cluster.Member{Node: "n2", AliveRev: 5, FirstRank: 2, Devices: []cluster.DeviceID{"e"}})
	}
	if c.rng.IntN(2) == 0 {
		plan.Resume = &record.Checkpoint{Step: 1}
	}
	c.plans[g], c.absent = plan, 0
	c.note("START %d life=%d members=%d", g, life, len(plan.World.Members))
	c.write(record.Put(record.SpecKey(chaosJob), record.Submitted{ID: chaosJob}), record.Put(record.PlanKey(chaosJob, g), plan),
		record.Put(record.PermitKey(chaosJob, g), record.Permit{}),
		record.Put(record.GrantKey(c.m.Node, chaosJob), record.Grant{Generation: g, Devices: []cluster.DeviceID{"d0", "d1"}}))
}

// over reports whether the leader may form a new generation: this node has
// acknowledged that the last has stopped, or was fenced, which takes a lost lease
// and the wait for its deadline.
func (c *chaos) over(g cluster.Generation) bool {
	acks := c.acks(g)
	return acks.Stopped.Exists() || c.crowd > 1 && c.absent > 0 && c.net.Now() >= c.absent+fence.Wait
}

func (c *chaos) acks(g cluster.Generation) record.Acks {
	return c.net.Records().Node(c.m.Node).Ack(chaosJob, g, "")
}

func (c *chaos) peer(g cluster.Generation) {
	if len(c.plans[g].World.Members) == 1 || !c.net.Records().Job(chaosJob).Generation(g).Plan.Exists() {
		return
	}
	c.note("PEER %d", g)
	switch c.rng.IntN(3) {
	case 0:
		c.write(record.Put(record.AckKey("n2", chaosJob, g, record.AckFailed), record.Failed{Kind: record.WorkerFailed, Reason: "over there"}))
	case 1:
		c.write(record.Put(record.AckKey("n2", chaosJob, g, record.AckStopped), record.Stopped{}))
	case 2: // what this node has saved, too
		for step := range c.net.Records().Node(c.m.Node).Saved[record.JobGen{Job: chaosJob, Generation: g}] {
			c.write(record.Put(record.SavedKey("n2", chaosJob, g, step), record.Saved{Ranks: []int{2}}))
		}
	}
}

// collect has the leader delete the records of an older generation that has ended.
func (c *chaos) collect() {
	for g := cluster.Generation(1); g+1 < c.newest; g++ {
		if c.net.Records().Job(chaosJob).Generation(g).Plan.Exists() && c.acks(g).Stopped.Exists() {
			c.note("COLLECT %d", g)
			c.write(record.DeletePrefix(record.GenerationPrefix(chaosJob, g)))
			return
		}
	}
}

// live is the part of shims and workers.
func (c *chaos) live() {
	shims := c.m.Shims()
	if len(shims) == 0 {
		return
	}
	s := shims[c.rng.IntN(len(shims))]
	switch n := c.rng.IntN(12); {
	case n < 5:
		c.save(s, c.saved[s.Generation]+1+c.rng.Int64N(5))
	case n == 5 && s.Running():
		c.note("exit 1 %d", s.Generation)
		s.Exit(1)
	case n == 6 && s.Running():
		c.note("exit 0 %d", s.Generation)
		s.Exit(0)
	case n == 7:
		c.note("shim dies %d", s.Generation)
		s.Crash()
	case n == 8:
		c.note("shim hangs %d", s.Generation)
		s.Hang(true)
	case n == 9:
		s.Hang(false)
	}
}

// restart ends the agent: what it had in mind is lost, shims and records are not.
// Now and then a run directory goes with it, under the shim and its workers.
func (c *chaos) restart() {
	c.note("agent dies")
	c.m.StopAgent()
	for g := range c.newest {
		if g++; c.rng.IntN(16) == 0 {
			c.note("directory lost %d", g)
			c.m.LoseDirectory(record.JobGen{Job: chaosJob, Generation: g})
			c.lost[g] = map[int64]bool{c.saved[g]: true}
		}
	}
	c.pass(c.upTo(15 * time.Second))
	c.m.StartAgent()
}

func (c *chaos) check() error {
	for g := range c.newest {
		if a := c.acks(g + 1); a.Stopped.Exists() && later(a.Stopped.Create, a.Started.Create, a.Held.Create, a.Failed.Create) ||
			a.Failed.Exists() && later(a.Failed.Create, a.Started.Create, a.Held.Create) ||
			a.Held.Exists() && later(a.Held.Create, a.Started.Create) {
			return fmt.Errorf("generation %d: acknowledged out of order: %+v", g+1, a)
		}
	}
	return c.fault
}

// later reports whether any of others came after last.
func later(last int64, others ...int64) bool {
	for _, r := range others {
		if r > last {
			return true
		}
	}
	return false
}

// calmDown lets nothing go wrong any more, has the leader end everything, and
// demands that nothing is left within a bounded time.
func (c *chaos) calmDown() error {
	c.calm = true
	for _, s := range slices.Clone(c.m.Shims()) { // one that goes on may retire
		s.Hang(false)
	}
	c.net.Pass(30 * time.Second)
	for g := range c.newest {
		g++
		gen := c.net.Records().Job(chaosJob).Generation(g)
		if !gen.Plan.Exists() {
			continue
		}
		c.write(record.Delete(record.PermitKey(chaosJob, g)))
		if len(gen.Plan.Value.World.Members) > 1 {
			c.write(record.Put(record.AckKey("n2", chaosJob, g, record.AckStopped), record.Stopped{}))
		}
	}
	c.net.Pass(2 * time.Minute)
	if err := c.check(); err != nil {
		return err
	}
	c.log = nil
	c.net.Pass(30 * time.Second)
	if len(c.log) > 0 {
		return fmt.Errorf("the agent finds no end")
	}
	if c.newest > 0 && !c.acks(c.newest).Stopped.Exists() {
		return fmt.Errorf("generation %d was never acknowledged as stopped", c.newest)
	}
	if shims, dirs := len(c.m.Shims()), c.m.Directories(); shims+dirs > 0 {
		return fmt.Errorf("%d shims and %d run directories are left", shims, dirs)
	}
	return nil
}

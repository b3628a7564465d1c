package coordinator_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
)

// simNode is a machine in the storm, with what its faults need to know.
type simNode struct {
	*machine.Machine
	s        *storm
	refuses  bool          // it cannot run some jobs
	misread  bool          // its disk is bad: what it reads is not what is there
	scrapped bool          // it never comes back
	steady   time.Duration // since when it has been whole, and in etcd's view so
}

// agentTick is how often an agent looks at everything.
const agentTick = 400 * time.Millisecond

func (s *storm) newNode(id cluster.NodeID) *simNode {
	n := &simNode{s: s}
	n.Machine = machine.New(machine.Config{
		Node: id, Alive: record.Alive{Addr: string(id), Ports: record.Ports{First: 7000, Count: 20}, Nonces: true, Prepares: true},
		Dawn: dawn, Leases: leases{s}, Crowd: s.crowd, Script: script{s}, Outside: n,
		Faults: machine.Faults{
			Reacts:  func() time.Duration { return s.between(0, agentTick/2) },
			Takes:   n.takes,
			Refuses: n.refuse,
			Passed:  func(jg record.JobGen) bool { return s.now >= s.passes[n.of(jg)] },
			Damaged: n.damaged,
			Unread:  s.checkUnread,
			Merged:  s.merged,
			Dies:    s.dies,
			Executed: func(sh *machine.Shim) {
				s.countPrepared(sh)
				s.checkExec(sh)
			},
			Prepares:     n.prepares,
			Unpreparable: func(record.JobGen) string { return s.seldom("cannot be prepared", 5) },
			Unbindable:   func(record.JobGen) string { return s.seldom("plan not bound", 4) },
			Fenced:       func(*machine.Shim) { s.did("shim kills by itself") },
		},
	})
	return n
}

// tick is the agent's loop.
func (s *storm) tick(n *simNode) {
	defer s.at(agentTick+s.between(0, agentTick/2), func() { s.tick(n) })
	switch {
	case !n.Up():
		s.did("machine down")
	case !n.AgentUp():
		s.did("agent down")
	case !n.Reaches():
		s.did("node cut off")
	}
	n.Tick()
	n.losePrepared()
}

// leases are etcd's: what one of them ends is seen at once.
type leases struct{ s *storm }

func (l leases) Grant(ttl time.Duration) int64 { return l.s.mem.Grant(ttl) }

func (l leases) KeepAlive(lease int64) error { return l.s.mem.KeepAlive(lease) }

// crowd is how many nodes the cluster has.
func (s *storm) crowd() (count int) {
	for _, n := range s.nodes {
		if s.mirror.Node(n.Node).Inventory.Exists() {
			count++
		}
	}
	return count
}

// Now implements machine.Outside.
func (n *simNode) Now() time.Duration { return n.s.now }

// At implements machine.Outside.
func (n *simNode) At(after time.Duration, do func()) { n.s.at(after, do) }

// Records implements machine.Outside.
func (n *simNode) Records() *record.Mirror { return n.s.mirror }

// Commit implements machine.Outside. What is on its way may be late, or come twice.
func (n *simNode) Commit(t record.Txn) record.Outcome {
	s := n.s
	switch {
	case s.calm, t.ID == "alive":
	case strings.HasPrefix(t.ID, "offer") && s.chance(40):
		s.lateOffer(n, t)
	case t.ID == "progress" && s.chance(50):
		s.at(s.between(0, 5*time.Second), func() { // perhaps its job is long gone
			if n.AgentUp() {
				s.did("progress late")
				s.write(t.Then...)
			}
		})
		return record.Outcome{ID: t.ID, Result: record.Applied, Revision: s.mem.Revision()}
	case s.chance(3):
		s.did("agent's answer lost")
		s.mem.Commit(t)
		s.observe()
		return record.Outcome{ID: t.ID, Result: record.Unknown}
	}
	out := s.mem.Commit(t)
	s.observe()
	return out
}

// lateOffer has an offer come once more, long after it was made and without its
// guard, as an agent may send it that does not know of the guard.
func (s *storm) lateOffer(n *simNode, t record.Txn) {
	s.at(s.between(0, 8*time.Second), func() {
		if s.mirror.Node(n.Node).Belongs() && !s.calm {
			s.did("offer late")
			s.write(t.Then[0])
		}
	})
}

func (n *simNode) takes(a agent.Action) time.Duration {
	switch a.(type) {
	case agent.StartShim:
		return n.s.between(0, time.Second)
	case agent.Verify, agent.Digest, agent.Merge:
		return n.s.between(0, 500*time.Millisecond)
	default:
		return 0
	}
}

// of names what a node has to do with a generation.
func (n *simNode) of(jg record.JobGen) string {
	return fmt.Sprintf("%s %s/%d", n.Node, jg.Job, jg.Generation)
}

// refuse turns a generation down, for good or for something that passes.
func (n *simNode) refuse(jg record.JobGen) *record.Failed {
	s := n.s
	if !n.refuses || s.calm || !s.chance(60) {
		return nil
	}
	kinds := []record.FailureKind{record.NodeRefused, record.NodeRefused, record.Transient, record.NoSpace}
	s.passes[n.of(jg)] = s.now + s.between(time.Second, time.Minute)
	return &record.Failed{Kind: kinds[s.rng.IntN(len(kinds))], Rank: -1, Reason: "workdir /w cannot be used", At: s.clock()}
}

// damaged is what a node finds that reads a checkpoint.
func (n *simNode) damaged(c record.Checkpoint) bool {
	s := n.s
	if !s.damaged[c] && n.misread {
		s.did("sound checkpoint misread")
	}
	return s.damaged[c] || n.misread
}

// merged may damage a checkpoint that was just written.
func (s *storm) merged(c record.Checkpoint) {
	if !s.calm && s.chance(15) {
		s.did("checkpoint damaged")
		s.damaged[c] = true
	}
}

// checkUnread: a checkpoint that workers have failed from is read before the next start from it.
func (s *storm) checkUnread(jg record.JobGen, c record.Checkpoint) {
	s.checkBlind(s.mirror.Job(jg.Job), c)
}

// acks are what a node has acknowledged of the generation that is planned.
func (s *storm) acks(n cluster.NodeID, jg record.JobGen) record.Acks {
	return agent.AcksOf(s.mirror, n, jg)
}

// ranks are the workers of one generation, on all its nodes.
type ranks struct {
	joined []*machine.Shim // whose workers were executed
	steps  time.Duration   // the time in which all of them have trained
	since  time.Duration   // as of then
}

// script is what the jobs' workers do.
type script struct{ s *storm }

// job is that of a shim.
func (x script) job(sh *machine.Shim) *simJob { return x.s.jobs[sh.Job] }

func (x script) world(sh *machine.Shim) *ranks {
	name := fmt.Sprintf("%s/%d %s", sh.Job, sh.Generation, sh.World.Nonce)
	w := x.s.worlds[name]
	if w == nil {
		w = &ranks{}
		x.s.worlds[name] = w
	}
	return w
}

// advance counts the steps that the ranks have taken together: none of them is ahead
// of another that is held, dead, or not there yet.
func (x script) advance(sh *machine.Shim) {
	w := x.world(sh)
	together := len(w.joined) == len(sh.World.Members)
	for _, o := range w.joined {
		together = together && o.Running() && o.Report().Held == nil
	}
	if together {
		w.steps += x.s.now - w.since
	}
	w.since = x.s.now
}

// step is the newest that a node's ranks have begun.
func (x script) step(sh *machine.Shim) int64 {
	from := int64(-1)
	if sh.Resume != nil {
		from = sh.Resume.Step
	}
	if x.job(sh).loose {
		return from + 1 + int64((x.s.now-sh.Execed)/stepTime)
	}
	x.advance(sh)
	return from + 1 + int64(x.world(sh).steps/stepTime)
}

// Run implements machine.Script.
func (x script) Run(sh *machine.Shim) {
	x.advance(sh)
	w := x.world(sh)
	w.joined = append(w.joined, sh)
	if x.job(sh).sdk {
		sh.Connect()
	}
	if sh.Rank0 && sh.Resume != nil && x.s.damaged[*sh.Resume] { // which no agent has read
		x.s.did("damaged checkpoint loaded")
		x.s.at(x.s.between(0, time.Second), func() { sh.Exit(1) })
	}
	if sh.World.Size() <= x.job(sh).hungry {
		x.s.at(x.s.between(0, 2*time.Second), func() { x.s.starve(sh) })
	}
	x.s.at(x.s.between(0, agentTick), func() { x.train(sh, -1) })
}

// train goes on, saves now and then, and ends. saved is the step of the last save.
func (x script) train(sh *machine.Shim, saved int64) {
	if !sh.Running() || sh.Report().Held != nil {
		return
	}
	job, step := x.job(sh), x.step(sh)
	const every = 40
	if due := step / every * every; job.saves && due > saved && (sh.Resume == nil && due > 0 || sh.Resume != nil && due > sh.Resume.Step) {
		if saved = due; job.sdk {
			sh.Saved(due, -1)
		} else if sh.Rank0 {
			sh.Left(due, -1, false)
		}
	}
	if step >= job.steps {
		sh.Exit(0)
		return
	}
	if x.s.chance(10) {
		sh.Progress(step, -1)
	}
	x.s.at(agentTick+x.s.between(0, agentTick/2), func() { x.train(sh, saved) })
}

// Hold implements machine.Script.
func (x script) Hold(sh *machine.Shim) {
	x.s.at(x.s.between(0, agentTick), func() {
		if !sh.Running() {
			return
		}
		sh.Holds(x.step(sh))
	})
}

// Stop implements machine.Script.
func (x script) Stop(sh *machine.Shim, after int64) {
	x.s.at(x.s.between(100*time.Millisecond, 2*time.Second), func() {
		if sh.Running() && x.job(sh).saves {
			sh.Saved(after, -1)
		}
		sh.Exit(0)
	})
}

// Terminate implements machine.Script.
func (x script) Terminate(sh *machine.Shim) {
	step := x.step(sh)
	x.s.at(x.s.between(100*time.Millisecond, 2*time.Second), func() {
		if sh.Running() && sh.Rank0 && x.job(sh).saves && !x.job(sh).sdk {
			sh.Left(step, -1, true)
		}
		sh.Exit(0)
	})
}

package coordinator_test

import (
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// simNode is a machine with an honest agent.
type simNode struct {
	id       cluster.NodeID
	devices  []cluster.Device
	told     bool          // the inventory in etcd is as devices
	up       bool          // the machine
	agent    bool          // its agent; shims live on without it
	cut      time.Duration // until then it cannot reach etcd
	lease    int64
	rev      int64         // of its alive key: this life
	lives    uint64        // how many it has had
	renewed  time.Duration // when it last was
	shims    map[record.JobGen]*simShim
	refuses  bool                       // it cannot run some jobs
	strict   bool                       // it is not alone, or has given its word that its workers die without a lease
	misread  bool                       // its disk is bad: what it reads is not what is there
	knows    map[record.Checkpoint]bool // which its agent has written: it reads them only if they are doubted
	scrapped bool                       // it never comes back
	steady   time.Duration              // since when it has been whole, and in etcd's view so
}

// simShim hosts one generation's workers.
type simShim struct {
	jg       record.JobGen
	life     int64
	devices  []cluster.DeviceID
	running  bool
	execed   time.Duration
	deadline time.Duration // its workers die then, unless renewed
	from     int64         // the step that it resumed at
	dying    bool
	told     bool // to stop
	toldAt   time.Duration
	begun    int64
	saved    int64 // step, -1 = none
	leaving  bool
	finished bool
	failed   *record.Failed
	offered  int64
}

const (
	nodeTTL   = 10 * time.Second
	margin    = 2500 * time.Millisecond
	agentTick = 400 * time.Millisecond
)

// tick is the agent's loop.
func (s *storm) tick(n *simNode) {
	defer s.at(agentTick+s.between(0, agentTick/2), func() { s.tick(n) })
	switch {
	case !n.up:
		s.did("machine down")
		return
	case !n.agent:
		s.did("agent down")
		return
	case s.now < n.cut:
		s.did("node cut off")
		return
	}
	s.keepAlive(n)
	view := s.mirror.Node(n.id)
	var all []record.JobGen
	for job, g := range view.Grants {
		all = append(all, record.JobGen{Job: job, Generation: g.Value.Generation})
	}
	for jg := range n.shims {
		if !slices.Contains(all, jg) {
			all = append(all, jg)
		}
	}
	slices.SortFunc(all, func(a, b record.JobGen) int {
		if a.Job != b.Job {
			return map[bool]int{true: -1, false: 1}[a.Job < b.Job]
		}
		return int(a.Generation) - int(b.Generation)
	})
	for _, jg := range all {
		s.tend(n, jg)
	}
	for jg, acks := range view.Acks { // of generations that the leader has collected
		if acks.Stopped.Exists() && !s.mirror.Job(jg.Job).Generation(jg.Generation).Plan.Exists() {
			s.write(record.DeletePrefix(record.AckPrefix(n.id, jg.Job, jg.Generation)))
		}
	}
}

// keepAlive renews the lease each 2 s, and takes a new life when it is gone.
func (s *storm) keepAlive(n *simNode) {
	if n.rev != 0 && s.now < n.renewed+2*time.Second {
		return
	}
	if n.rev == 0 || s.mem.KeepAlive(n.lease) != nil {
		if _, ok := s.mem.Get(record.AliveKey(n.id)); ok { // of a life before a reboot: another key, another revision
			s.write(record.Delete(record.AliveKey(n.id)))
		}
		n.lease = s.mem.Grant(nodeTTL)
		n.rev = s.write(record.PutLeased(record.AliveKey(n.id), record.Alive{
			Addr: string(n.id), Ports: record.Ports{First: 7000, Count: 20},
		}, n.lease), record.Put(record.NodeEventKey(n.id, n.lives+1), record.Event{Seq: n.lives + 1, Kind: record.NodeJoined, Node: n.id}))
		n.lives++
		s.note("%s lives at %d", n.id, n.rev)
	}
	v := s.mirror.Node(n.id)
	if !n.told || !v.Inventory.Exists() {
		s.write(record.Put(record.InventoryKey(n.id), record.Inventory{Devices: n.devices}))
		n.told = true
	}
	n.renewed = s.now
	n.strict = v.Fencing.Value.AliveRev != 0 // it has given its word
	lone := true
	for _, other := range s.nodes {
		lone = lone && (other == n || !s.mirror.Node(other.id).Inventory.Exists())
	}
	switch {
	case !lone:
		n.strict = true
	case n.strict: // it takes its word back, and then lets workers live on
		s.write(record.Put(record.FencingKey(n.id), record.Fencing{At: s.clock()}))
		s.note("%s is alone again", n.id)
		n.strict = false
	}
	for _, sh := range n.shims {
		if sh.life == n.rev {
			s.extend(n, sh)
		}
	}
	if n.strict && v.Fencing.Value.AliveRev != n.rev {
		s.write(record.Put(record.FencingKey(n.id), record.Fencing{AliveRev: n.rev, At: s.clock()}))
	}
}

// never is the deadline of a node that knows no other.
const never = 1000 * time.Hour

// extend gives a shim the deadline of the newest renewal.
func (s *storm) extend(n *simNode, sh *simShim) {
	was := sh.deadline
	sh.deadline = never
	if n.strict {
		sh.deadline = n.renewed + nodeTTL - margin
	}
	if was > sh.deadline && sh.running {
		s.watchDeadline(n, sh)
	}
}

// die ends a shim's workers within a moment.
func (s *storm) die(sh *simShim) {
	if sh.dying || !sh.running {
		return
	}
	sh.dying = true
	s.at(s.between(0, 400*time.Millisecond), func() { sh.running = false })
}

// tend does what the records ask for one generation.
func (s *storm) tend(n *simNode, jg record.JobGen) {
	job := s.mirror.Job(jg.Job)
	gen, acks, sh := job.Generation(jg.Generation), s.acks(n.id, jg), n.shims[jg]
	m, index, member := gen.Plan.Value.World.Member(n.id)
	switch {
	case acks.Stopped.Exists():
		if sh != nil && !sh.running {
			delete(n.shims, jg)
		} else if sh != nil {
			s.fault("the simulated agent of %s has acknowledged %v too early", n.id, jg)
		}
	case !member || m.AliveRev != n.rev || !gen.Permit.Exists() || gen.Halt.Exists() && !gen.Halt.Value.Save || !gen.Halt.Exists() && s.peerFailed(gen, n, jg):
		s.leave(n, jg, sh)
	case sh == nil && (gen.Halt.Exists() || acks.Started.Exists()):
		s.leave(n, jg, nil)
	case sh == nil:
		s.start(n, job, m)
	case !sh.running:
		s.leave(n, jg, sh)
	case gen.Halt.Exists():
		s.halting(n, sh, gen, index)
	default:
		s.train(n, sh, gen, index)
	}
}

// acks are what a node has acknowledged of the generation that is planned.
func (s *storm) acks(n cluster.NodeID, jg record.JobGen) record.Acks {
	return s.mirror.Node(n).Ack(jg.Job, jg.Generation, s.mirror.Job(jg.Job).Generation(jg.Generation).Plan.Value.World.Nonce)
}

func (s *storm) peerFailed(gen record.GenerationView, n *simNode, jg record.JobGen) bool {
	return slices.ContainsFunc(gen.Plan.Value.World.Members, func(m cluster.Member) bool {
		return m.Node != n.id && s.acks(m.Node, jg).Failed.Exists()
	})
}

// leave kills what runs and acknowledges once nothing is left.
func (s *storm) leave(n *simNode, jg record.JobGen, sh *simShim) {
	if sh == nil {
		s.ack(n, jg, record.AckStopped, record.Stopped{ExitedAt: s.clock()})
		return
	}
	if sh.running {
		s.die(sh)
		return
	}
	if sh.failed != nil {
		s.ack(n, jg, record.AckFailed, *sh.failed)
	}
	s.ack(n, jg, record.AckStopped, record.Stopped{ExitedAt: s.clock(), Finished: sh.finished})
}

func (s *storm) ack(n *simNode, jg record.JobGen, a record.Ack, value any) {
	key := record.AckKey(n.id, jg.Job, jg.Generation, a)
	s.mem.Commit(record.Txn{ID: "ack", If: []record.Compare{record.Absent(key)}, Then: []record.Op{record.Put(key, value)}})
	s.observe()
}

// turnDown refuses a generation, for good or for something that passes.
func (s *storm) turnDown(n *simNode, jg record.JobGen) {
	kinds := []record.FailureKind{record.NodeRefused, record.Transient, record.NoSpace}
	kind := kinds[s.rng.IntN(len(kinds))]
	s.ack(n, jg, record.AckFailed, record.Failed{Kind: kind, Rank: -1, Reason: "workdir /w cannot be used", At: s.clock()})
	s.ack(n, jg, record.AckStopped, record.Stopped{ExitedAt: s.clock()})
	if kind.MayPass() {
		s.at(s.between(time.Second, time.Minute), func() {
			if n.up && n.agent && s.now >= n.cut {
				s.ack(n, jg, record.AckCleared, record.Cleared{At: s.clock()})
			}
		})
	}
}

// start executes workers after a while, if that is still wanted then.
func (s *storm) start(n *simNode, job *record.JobView, m cluster.Member) {
	jg := record.JobGen{Job: job.ID, Generation: job.State.Value.Generation}
	if n.refuses && s.chance(30) && !s.calm {
		s.turnDown(n, jg)
		return
	}
	plan := job.Generation(jg.Generation).Plan.Value
	blind := plan.Resume != nil && m.FirstRank == 0 && n.knows[*plan.Resume] && !plan.Doubted
	if blind {
		s.checkBlind(job, *plan.Resume)
	}
	if r := plan.Resume; r != nil && m.FirstRank == 0 && !blind && (s.damaged[*r] || n.misread) {
		s.note("%s finds the checkpoint of step %d of %s damaged", n.id, r.Step, jg.Job)
		if !s.damaged[*r] {
			s.did("sound checkpoint misread")
		}
		s.ack(n, jg, record.AckFailed, record.Failed{Kind: record.CheckpointDamaged, Rank: -1, Reason: "it is damaged", At: s.clock()})
		s.ack(n, jg, record.AckStopped, record.Stopped{ExitedAt: s.clock()})
		return
	}
	sh := &simShim{
		jg: jg, life: n.rev, devices: m.Devices, saved: -1, offered: -1, from: -1, begun: -1,
	}
	if plan.Resume != nil {
		sh.from = plan.Resume.Step
	}
	if s.extend(n, sh); s.now >= sh.deadline {
		return
	}
	n.shims[jg] = sh
	sh.running, sh.execed = true, s.now
	s.checkExec(n, sh)
	if blind && s.damaged[*plan.Resume] { // which its workers find when they load it
		s.did("damaged checkpoint loaded")
		s.at(s.between(0, time.Second), func() { s.failIn(sh) })
	}
	s.watchDeadline(n, sh)
	s.at(s.between(0, time.Second), func() {
		if n.up && n.agent && s.now >= n.cut && n.rev == sh.life {
			s.ack(n, jg, record.AckStarted, record.Started{ExecedAt: dawn.Add(sh.execed)})
		}
	})
}

// watchDeadline is the shim's own fence; it needs no agent.
func (s *storm) watchDeadline(n *simNode, sh *simShim) {
	s.at(sh.deadline-s.now, func() {
		switch {
		case !sh.running || n.shims[sh.jg] != sh:
		case s.now >= sh.deadline:
			s.did("shim kills by itself")
			s.die(sh)
		default:
			s.watchDeadline(n, sh)
		}
	})
}

// step is the newest that the shim's ranks have begun.
func (s *storm) step(sh *simShim) int64 {
	return sh.from + 1 + int64((s.now-sh.execed)/stepTime)
}

// train goes on, saves now and then, and ends.
func (s *storm) train(n *simNode, sh *simShim, gen record.GenerationView, index int) {
	job := s.jobs[sh.jg.Job]
	acks := s.acks(n.id, sh.jg)
	if !acks.Started.Exists() { // its acknowledgement was lost with the agent
		s.ack(n, sh.jg, record.AckStarted, record.Started{ExecedAt: dawn.Add(sh.execed)})
	}
	step := s.step(sh)
	if step >= job.steps {
		sh.finished, sh.running = true, false
		return
	}
	if s.chance(10) {
		s.report(n, sh, step)
	}
	if index == 0 && job.saves && step/40 > sh.offered/40 && step > sh.from {
		sh.offered = step
		s.offer(n, sh, gen, step)
	}
}

// report tells how far a node's ranks are, perhaps when they are long gone.
func (s *storm) report(n *simNode, sh *simShim, step int64) {
	s.at(s.between(0, 5*time.Second), func() {
		if n.agent {
			s.write(record.Put(record.ProgressKey(n.id), record.Progress{Jobs: map[cluster.JobID]record.JobProgress{
				sh.jg.Job: {Generation: sh.jg.Generation, Step: step, Samples: -1, At: s.clock()},
			}}))
		}
	})
}

// offer writes after a while: late news of a generation that is over.
func (s *storm) offer(n *simNode, sh *simShim, gen record.GenerationView, step int64) {
	world := gen.Plan.Value.World
	late := s.between(0, 2*time.Second)
	if s.calm {
		late = 0
	}
	c := record.Checkpoint{
		Generation: sh.jg.Generation, Step: step, WorldSize: world.Processes(), ManifestSHA256: "5a", Dir: "/c/" + string(sh.jg.Job),
	}
	if !s.calm && s.chance(15) {
		s.damaged[c] = true
	}
	n.knows[c] = true
	s.at(late, func() {
		s.write(record.Put(record.OfferKey(n.id, sh.jg.Job, sh.jg.Generation, step), record.Offer{At: s.clock(), Checkpoint: c}))
	})
}

// halting is a save-halt: hold, finish the last step, save, go.
func (s *storm) halting(n *simNode, sh *simShim, gen record.GenerationView, index int) {
	job := s.jobs[sh.jg.Job]
	if !sh.told {
		sh.told, sh.toldAt, sh.begun = true, s.now, s.step(sh)
		if !job.sdk {
			s.ack(n, sh.jg, record.AckHeld, record.Held{Begun: -1, At: s.clock()})
		} else {
			s.ack(n, sh.jg, record.AckHeld, record.Held{SDK: true, Begun: sh.begun, At: s.clock()})
		}
	}
	if job.sdk && gen.Halt.Value.StopAfter == nil || sh.leaving {
		return
	}
	sh.leaving = true
	if job.sdk {
		sh.begun = max(sh.begun, *gen.Halt.Value.StopAfter)
	}
	s.at(s.between(100*time.Millisecond, 2*time.Second), func() {
		if !sh.running {
			return
		}
		if job.saves {
			sh.saved = sh.begun
		}
		if index == 0 && job.saves && n.agent && s.now >= n.cut {
			s.offer(n, sh, gen, sh.begun)
		}
		sh.running = false
	})
}

// jobsOf returns the generations that run on a node.
func (n *simNode) jobsOf() []record.JobGen {
	running := maps.Clone(n.shims)
	maps.DeleteFunc(running, func(_ record.JobGen, sh *simShim) bool { return !sh.running })
	return slices.SortedFunc(maps.Keys(running), func(a, b record.JobGen) int {
		if a.Job < b.Job || a.Job == b.Job && a.Generation < b.Generation {
			return -1
		}
		return 1
	})
}

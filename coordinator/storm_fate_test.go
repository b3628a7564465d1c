package coordinator_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
)

// misfortune is something that goes wrong every few seconds.
func (s *storm) misfortune() {
	if s.calm {
		return
	}
	s.at(s.between(500*time.Millisecond, 6*time.Second), s.misfortune)
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	next := fates[s.rng.IntN(len(fates))]
	s.did("fate: " + next.name)
	next.do(s, n)
}

// fate is one kind of misfortune.
type fate struct {
	name string
	do   func(*storm, *simNode)
}

// fates are drawn from; what is there twice comes twice as often.
var fates = []fate{
	{"leader dies", (*storm).crashLeader},
	{"leader freezes", (*storm).freezeLeader},
	{"leader deposed", (*storm).deposeLeader},
	{"agent dies", (*storm).crashAgent},
	{"node lost", (*storm).loseNode},
	{"node cut off", (*storm).cutOff},
	{"lease revoked", (*storm).revoke},
	{"lease revoked unseen", (*storm).revokeUnseen},
	{"worker fails", (*storm).failWorker},
	{"worker fails", (*storm).failWorker},
	{"node cordoned", (*storm).cordonNode},
	{"device sick", (*storm).sickDevice},
	{"stop", (*storm).stopJob},
	{"stop", (*storm).stopJob},
	{"scale", (*storm).scaleJob},
	{"resume", (*storm).resumeJob},
	{"node refuses", (*storm).refuse},
	{"node refuses", (*storm).refuse},
	{"node cut off", (*storm).cutOff},
	{"pause", (*storm).pause},
	{"disk misread", (*storm).misread},
	{"disk misread", (*storm).misread},
	{"node scrapped", (*storm).scrapNode},
	{"etcd restored", (*storm).restoreEtcd},
	{"etcd restored", (*storm).restoreEtcd},
	{"worker unkillable", (*storm).stickWorker},
	{"worker out of memory", (*storm).starveWorker},
}

func (s *storm) leader() *simLeader { return s.leaders[len(s.leaders)-1] }

func (s *storm) crashLeader(*simNode) {
	s.note("leader dies")
	s.leader().active = false
}

func (s *storm) freezeLeader(*simNode) {
	l := s.leader()
	l.frozen = s.now + s.between(time.Second, 15*time.Second)
	s.note("leader freezes until +%v", l.frozen)
}

// deposeLeader: the key goes, and the leader does not notice for a while.
func (s *storm) deposeLeader(*simNode) {
	s.note("leader deposed unawares")
	l := s.leader()
	_ = s.mem.Revoke(l.lease) // perhaps it has none any more
	s.at(s.between(time.Second, 20*time.Second), func() { l.active = false })
}

func (s *storm) crashAgent(n *simNode) {
	down := s.between(500*time.Millisecond, 20*time.Second)
	s.note("agent of %s down for %v", n.Node, down)
	n.StopAgent()
	s.at(down, n.StartAgent)
}

func (s *storm) loseNode(n *simNode) {
	was := n.Up()
	s.takeDown(n)
	if was && !n.Up() {
		s.did("machine lost for a time")
	}
}

// takeDown ends all that runs on a machine, for a time unless it is scrapped.
func (s *storm) takeDown(n *simNode) {
	down := s.between(5*time.Second, 40*time.Second)
	s.note("%s lost for %v", n.Node, down)
	n.PowerOff()
	s.at(down, func() {
		if !n.scrapped {
			n.PowerOn()
		}
	})
}

func (s *storm) cutOff(n *simNode) { s.cut(n, s.between(2*time.Second, 25*time.Second)) }

// cut keeps a node from etcd for so long.
func (s *storm) cut(n *simNode, length time.Duration) {
	s.note("%s cut off for %v", n.Node, length)
	n.CutOff(s.now + length)
}

func (s *storm) revoke(n *simNode) {
	s.note("lease of %s revoked", n.Node)
	_ = s.mem.Revoke(n.Lease()) // perhaps it is gone already
}

// revokeUnseen: the lease goes early, and the node does not learn of it before its own deadline.
func (s *storm) revokeUnseen(n *simNode) {
	s.cutOff(n)
	s.revoke(n)
}

func (s *storm) failWorker(n *simNode) {
	running := slices.DeleteFunc(slices.Clone(n.Shims()), func(sh *machine.Shim) bool { return !sh.Running() })
	if len(running) == 0 {
		return
	}
	sh := running[s.rng.IntN(len(running))]
	s.note("worker of %s/%d fails on %s", sh.Job, sh.Generation, n.Node)
	if sh.Exit(1); sh.Report().Failed != nil {
		s.did("worker failed")
	}
}

func (s *storm) cordonNode(n *simNode) {
	s.write(record.Put(record.CordonKey(n.Node), record.Cordon{Reason: "storm", Drain: s.chance(50)}))
	s.at(s.between(time.Second, 20*time.Second), func() {
		if !s.calm {
			s.write(record.Delete(record.CordonKey(n.Node)))
		}
	})
}

func (s *storm) sickDevice(n *simNode) {
	d := s.rng.IntN(len(n.Devices))
	n.Devices[d].Health = cluster.Unhealthy
	s.at(s.between(time.Second, 20*time.Second), func() { n.Devices[d].Health = cluster.Healthy })
}

func (s *storm) stopJob(n *simNode) {
	ids := s.mirror.JobIDs()
	if len(ids) == 0 || !s.chance(30) {
		return
	}
	s.askToStop(n, ids[s.rng.IntN(len(ids))], s.rng.IntN(3) == 0)
}

// askToStop hands in that its owner wants a job stopped.
func (s *storm) askToStop(n *simNode, job cluster.JobID, now bool) {
	s.write(record.Put(record.RequestKey(n.Node, fmt.Sprintf("stop-%d", s.serial)), record.Request{
		Kind: record.StopRequest, Job: job, Now: now, At: s.clock(), Owner: cluster.Owner{UID: 1000, User: "ann"},
	}))
}

// scaleJob: its owner wants other bounds.
func (s *storm) scaleJob(n *simNode) {
	ids := s.mirror.JobIDs()
	if len(ids) == 0 {
		return
	}
	r := record.Request{
		Kind: record.ScaleRequest, Job: ids[s.rng.IntN(len(ids))], MinWorkers: 1 << s.rng.IntN(2), MaxWorkers: 1 << (1 + s.rng.IntN(3)),
		At: s.clock(), Owner: cluster.Owner{UID: 1000, User: "ann"},
	}
	j := s.jobs[r.Job]
	if s.chance(50) {
		r.TimeLimit = cluster.Duration(time.Duration(1+s.rng.IntN(40)) * time.Second)
	}
	j.least, j.most = min(j.least, r.MinWorkers), max(j.most, r.MaxWorkers)
	s.note("%s is to have %d to %d workers", r.Job, r.MinWorkers, r.MaxWorkers)
	s.write(record.Put(record.RequestKey(n.Node, fmt.Sprintf("scale-%d", s.serial)), r))
}

// resumeJob: a job that has ended is to go on, perhaps from further back.
func (s *storm) resumeJob(n *simNode) {
	var ended []cluster.JobID
	for _, id := range s.mirror.JobIDs() {
		if p := s.mirror.Job(id).State.Value.Phase; p == cluster.Stopped || p == cluster.Failed || p == cluster.Held {
			ended = append(ended, id)
		}
	}
	if len(ended) == 0 {
		return
	}
	r := record.Request{
		Kind: record.ResumeRequest, Job: ended[s.rng.IntN(len(ended))], At: s.clock(), Owner: cluster.Owner{UID: 1000, User: "ann"},
	}
	steps := append(slices.Sorted(maps.Keys(s.mirror.Job(r.Job).Checkpoints)), slices.Sorted(maps.Keys(s.mirror.Job(r.Job).Bad))...)
	steps = append(steps, record.FromStart)
	if s.chance(60) {
		r.From = &steps[s.rng.IntN(len(steps))]
	}
	s.note("%s is to be resumed", r.Job)
	s.write(record.Put(record.RequestKey(n.Node, fmt.Sprintf("resume-%d", s.serial)), r))
}

// scrapNode: a node dies, and an operator thinks that it is for good, which it may
// be. He says so until he is heard, or told that it is not.
func (s *storm) scrapNode(n *simNode) {
	n.scrapped = n != s.nodes[0] && s.chance(30)
	s.takeDown(n)
	for range 1 + s.rng.IntN(4) {
		s.at(s.between(0, 40*time.Second), func() { s.removeNode(n) })
	}
	if s.chance(30) {
		s.at(s.between(0, 20*time.Second), func() { s.callDown(n) })
	}
}

// removeNode asks for it to be removed, most often only where that can be.
func (s *storm) removeNode(n *simNode) {
	if v := s.mirror.Node(n.Node); v.Belongs() && (s.chance(10) || !v.Alive.Exists() && len(s.mirror.Unfinished(n.Node)) == 0) {
		s.operate(record.Request{Kind: record.RemoveRequest, Node: n.Node})
	}
}

// callDown says that nothing runs on a node, which is so.
func (s *storm) callDown(n *simNode) {
	if !n.Up() {
		s.operate(record.Request{Kind: record.DrainRequest, Node: n.Node, Down: true})
	}
}

// operate hands in what an operator wants.
func (s *storm) operate(r record.Request) {
	s.note("to do: %s %s", r.Kind, r.Node)
	r.At, r.Owner = s.clock(), cluster.Owner{User: "root"}
	s.write(record.Put(record.RequestKey(s.nodes[s.rng.IntN(len(s.nodes))].Node, fmt.Sprintf("%s-%d", r.Kind, s.serial)), r))
}

// discard goes on until a node that is gone for good is removed.
func (s *storm) discard(n *simNode) {
	if s.mirror.Node(n.Node).Belongs() {
		s.callDown(n)
		s.removeNode(n)
		s.at(30*time.Second, func() { s.discard(n) })
	}
}

func (s *storm) pause(*simNode) {
	if !s.chance(30) {
		return
	}
	s.write(record.Put(record.PausedKey, record.Paused{Why: "storm", At: s.clock(), SaveSeconds: 5}))
	s.at(s.between(time.Second, 10*time.Second), s.unpause)
}

func (s *storm) unpause() {
	if _, ok := s.mem.Get(record.PausedKey); ok {
		s.write(record.Delete(record.PausedKey))
	}
}

// misread: the disk of the first node goes bad, or is well again. No other node's
// does, so two that find the same damage are right.
func (s *storm) misread(*simNode) { s.nodes[0].misread = !s.nodes[0].misread }

func (s *storm) refuse(n *simNode) { n.refuses = !n.refuses }

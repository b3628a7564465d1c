package coordinator_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// check holds one change against the invariants; the mirror has the whole revision already.
func (s *storm) check(c record.Change, before map[cluster.JobID]record.Versioned[record.Checkpoint]) {
	s.checkEvent(c)
	s.checkRemoved(c)
	rest, ok := strings.CutPrefix(c.Key, record.JobsPrefix)
	if !ok || c.Deleted {
		return
	}
	job, rest, _ := strings.Cut(rest, "/")
	v := s.mirror.Job(cluster.JobID(job))
	if step, name := v.Committed.Value.Step, "I5: %s: step %d, which is committed, is not the one kept"; v.Committed.Exists() && v.Checkpoints[step].Value != v.Committed.Value {
		s.fault(name, job, step)
	}
	for step := range v.Bad {
		if v.Checkpoints[step].Exists() {
			s.fault("I5: %s: step %d is kept and given up", job, step)
		}
	}
	switch {
	case rest == "checkpoint/committed":
		_, gaveUp := v.Bad[before[v.ID].Value.Step]
		got, was, st := v.Committed.Value, before[v.ID], v.State.Value
		if st.Phase == cluster.Queued && st.Rewound == st.Generation && st.Rewound > 0 {
			return // its owner has gone back
		}
		if gaveUp && was.Exists() && got.Step < was.Value.Step && v.Bad[was.Value.Step].Mod == c.ModRevision {
			return // it falls back
		}
		if got.Generation != v.State.Value.Generation {
			s.fault("I2: %s commits a save of generation %d in generation %d", job, got.Generation, v.State.Value.Generation)
		}
		if was.Exists() && got.Step <= was.Value.Step {
			s.fault("I2: %s commits step %d after %d", job, got.Step, was.Value.Step)
		}
	case rest == "state":
		s.checkSaveTime(v)
		if !v.State.Value.Phase.Active() {
			s.checkParked(v, cluster.World{}, "I12: %s is "+string(v.State.Value.Phase)+", and processes wait for its generation %d on %s")
		}
		if was, known := s.charged[v.ID]; known {
			s.checkCharge(v.ID, was, v.State.Value)
		}
		s.charged[v.ID] = v.State.Value
	case strings.HasSuffix(rest, "/halt") && c.CreateRevision == c.ModRevision:
		s.halted[record.JobGen{Job: v.ID, Generation: v.State.Value.Generation}] = s.now
	case strings.HasPrefix(rest, "checkpoint/bad/"):
		s.checkGivenUp(v, c)
	case strings.HasSuffix(rest, "/plan"):
		if c.CreateRevision != c.ModRevision {
			s.fault("I10: %s is written a second time", c.Key)
		}
		plan := v.Generation(v.State.Value.Generation).Plan.Value
		s.checkWorld(v, plan)
		s.checkParked(v, plan.World, "I1: %s is started anew while processes wait for its generation %d on %s")
		s.checkMemory(v, plan)
		if from := plan.Resume; (from != nil) != v.Committed.Exists() || from != nil && *from != v.Committed.Value {
			s.fault("I5: %s/%d begins at %+v, committed is %+v", job, plan.World.Generation, from, v.Committed.Value)
		}
	}
}

// checkEvent: no number is used twice, by whichever leader, and each event is
// written with what it tells of.
func (s *storm) checkEvent(c record.Change) {
	if !strings.HasPrefix(c.Key, record.EventsPrefix) {
		return
	}
	var e record.Event
	if err := json.Unmarshal(c.Value, &e); err != nil || c.Deleted {
		s.fault("event %s: %v", c.Key, err)
	}
	if s.told[e.Seq] {
		s.fault("event %d is written twice", e.Seq)
	}
	s.told[e.Seq] = true
	v := s.mirror.Job(e.Job)
	switch st, kind := v.State, string(e.Kind); kind {
	case "succeeded", "failed", "stopped", "held", "backoff":
		if st.Mod != c.ModRevision || string(st.Value.Phase) != kind {
			s.fault("event %d tells that %s is %s, and it is %s since revision %d", e.Seq, e.Job, e.Kind, st.Value.Phase, st.Mod)
		}
	case "started", "rescaled":
		if r := v.Rescales[e.Generation]; r.Mod != c.ModRevision || r.Value.To != e.To {
			s.fault("event %d tells of generation %d of %s, which is not accounted for with it", e.Seq, e.Generation, e.Job)
		}
	}
}

// checkRemoved: nothing is left on a node that is removed, and it is not there.
func (s *storm) checkRemoved(c record.Change) {
	for _, n := range s.nodes {
		if c.Key != record.InventoryKey(n.Node) || !c.Deleted {
			continue
		}
		if left := s.mirror.Unfinished(n.Node); len(left) > 0 || s.mirror.Node(n.Node).Belongs() {
			s.fault("I9: %s is removed, and %v is not over there", n.Node, left)
		}
	}
}

// longEnough is far more than a leader's picture is ever late.
const longEnough = 30 * time.Second

// watchNodes notes since when each node could have run any job.
func (s *storm) watchNodes() {
	for _, n := range s.nodes {
		v := s.mirror.Node(n.Node)
		sound := v.Alive.Exists() && !v.Cordon.Exists() && v.Inventory.Exists()
		for _, d := range v.Inventory.Value.Devices {
			sound = sound && d.Health == cluster.Healthy
		}
		if !sound {
			n.steady = s.now
		}
	}
}

// checkGivenUp: a sound checkpoint is not given up at one node's word while
// another has long been there that could have looked (I5).
func (s *storm) checkGivenUp(v *record.JobView, c record.Change) {
	var bad record.BadCheckpoint
	if err := json.Unmarshal(c.Value, &bad); err != nil {
		s.fault("%v", err)
	}
	if s.damaged[bad.Checkpoint] || bad.Reason.Has(reason.CheckpointGivenUpBy) {
		return
	}
	for _, n := range s.nodes[1:] {
		_, excluded := v.State.Value.Excluded[n.Node]
		if !excluded && s.now-n.steady > longEnough && len(n.Devices) >= smallest(v) {
			s.fault("I5: the sound checkpoint of step %d of %s is given up, and %s has not looked at it", bad.Step, v.ID, n.Node)
		}
	}
}

// checkSaveTime: no worker that saves is killed before the time for it is over.
func (s *storm) checkSaveTime(v *record.JobView) {
	st := v.State.Value
	h := v.Generation(st.Generation).Halt.Value
	at, known := s.halted[record.JobGen{Job: v.ID, Generation: st.Generation}]
	if st.Phase != cluster.Halting || !known || !st.Reason.Has(reason.Killed) {
		return
	}
	if had, promised := s.now-at, h.Deadline.Sub(h.At); had < promised {
		s.fault("save: %s/%d is killed after %v of %v", v.ID, st.Generation, had, promised)
	}
}

// forOthers reports whether a generation is halted or begins so that a job is closer together.
func forOthers(why string) bool {
	rest, moves := strings.CutPrefix(why, "move ")
	return moves && strings.Contains(rest, ", so that ") && !strings.Contains(rest, "overtaken")
}

// checkMove: where nothing may be moved nothing is, and a pinned job never.
func (s *storm) checkMove(v *record.JobView) {
	if st := v.State.Value; forOthers(st.Reason.String()) && (s.moving == 0 || st.Pinned) {
		s.fault("%s is moved (pinned: %t; %d jobs may be): %s", v.ID, st.Pinned, s.moving, st.Reason)
	}
}

// checkBlind: a checkpoint from which workers have failed is verified before a generation resumes from it.
func (s *storm) checkBlind(v *record.JobView, from record.Checkpoint) {
	for g, gen := range v.Generations {
		r := gen.Plan.Value.Resume
		if s.lossy || r == nil || *r != from { // a leader that news is kept from cannot know
			continue
		}
		for _, m := range gen.Plan.Value.World.Members {
			if a := s.acks(m.Node, record.JobGen{Job: v.ID, Generation: g}); a.Failed.Exists() && a.Failed.Value.Kind == record.WorkerFailed && g < v.State.Value.Generation {
				s.fault("I5: %s starts unread from step %d, from which generation %d has failed", v.ID, from.Step, g)
			}
		}
	}
}

func (s *storm) checkWorld(v *record.JobView, p record.Plan) {
	size, job := p.World.Size(), s.jobs[v.ID]
	if size&(size-1) != 0 || size < job.least || size > job.most {
		s.fault("I6: %s is to have %d workers of %d to %d", v.ID, size, job.least, job.most)
	}
	if v.Spent(s.clock()) {
		s.fault("%s starts generation %d after %v of running, and may have %v", v.ID, p.World.Generation, v.Ran(s.clock()), v.Scaled().TimeLimit)
	}
	rank, used := 0, map[cluster.DeviceID]bool{}
	for _, m := range p.World.Members {
		if m.FirstRank != rank {
			s.fault("I6: %s: %s begins at rank %d instead of %d", v.ID, m.Node, m.FirstRank, rank)
		}
		rank += len(m.Devices)
		for _, d := range m.Devices {
			if used[d] {
				s.fault("I6: %s has two ranks on %s", v.ID, d)
			}
			used[d] = true
		}
	}
}

// checkGrants: a device is granted to one job.
func (s *storm) checkGrants() {
	for _, id := range s.mirror.NodeIDs() {
		holder := map[cluster.DeviceID]cluster.JobID{}
		for job, g := range s.mirror.Node(id).Grants {
			for _, d := range g.Value.Devices {
				if other, taken := holder[d]; taken {
					s.fault("I3: %s is granted to %s and %s", d, min(job, other), max(job, other))
				}
				holder[d] = job
			}
		}
	}
}

// checkExec: when workers are executed, none of another generation of their job
// lives anywhere (I1), nor one of another job on their devices (I3).
func (s *storm) checkExec(sh *machine.Shim) {
	for _, other := range s.nodes {
		for _, o := range other.Shims() {
			if o == sh || !o.Running() && !o.Parked() {
				continue
			}
			if o.Parked() && o.Job == sh.Job && !s.mayWait(o, sh.World) {
				s.fault("I1: %s/%d starts on %s while processes wait for %d on %s", sh.Job, sh.Generation, sh.Member.Node, o.Generation, other.Node)
			}
			if abroad := other.Node != sh.Member.Node; abroad && (o.KillPending() || s.lost[o.World.Nonce]) {
				continue // they run no code any more, or nothing is known of them in etcd
			}
			if o.Running() && o.Job == sh.Job && !o.KillPending() && (o.Generation != sh.Generation || o.World.Nonce != sh.World.Nonce) {
				s.fault("I1: %s/%d starts on %s while %d runs on %s", sh.Job, sh.Generation, sh.Member.Node, o.Generation, other.Node)
			}
			for _, d := range o.Member.Devices {
				if o.Running() && slices.Contains(sh.Member.Devices, d) {
					s.fault("I3: %s/%d starts on %s, which %s/%d is still using", sh.Job, sh.Generation, d, o.Job, o.Generation)
				}
			}
		}
	}
}

func (s *storm) toldOf(id cluster.JobID, kind record.EventKind) bool {
	for _, e := range s.mirror.Events(0) {
		if e.Job == id && e.Kind == kind {
			return true
		}
	}
	return false
}

// checkEnd: a while after the faults have stopped every job is done, runs, or says why not (I9), and nothing is left of those done.
func (s *storm) checkEnd() {
	for id := range s.jobs {
		v := s.mirror.Job(id)
		st := v.State.Value
		s.checkCleared(v)
		switch {
		case s.unborn[id] && !v.Spec.Exists(): // a restore of etcd has lost it
		case s.brief && !v.Spec.Exists(): // it ended so early that it is forgotten
		case st.Phase.Terminal():
			if !s.toldOf(id, record.EventKind(st.Phase)) {
				s.fault("I9: %s is %s, and no event tells", id, st.Phase)
			}
			for _, n := range s.nodes {
				if s.mirror.Node(n.Node).Grants[id].Exists() {
					s.fault("I12: %s is %s and has a grant on %s", id, st.Phase, n.Node)
				}
				for _, sh := range n.Shims() {
					if sh.Job == id && (sh.Running() || sh.Parked()) {
						s.fault("I12: %s is %s and generation %d runs on %s", id, st.Phase, sh.Generation, n.Node)
					}
				}
			}
		case st.Phase == cluster.Running:
		case st.Phase == cluster.Queued && len(st.Reason) > 0 && !st.Reason.Has(reason.Accepted), st.Phase == cluster.Held && len(st.Reason) > 0:
		default:
			s.fault("I9: %s is %s (generation %d, %q) long after the faults have stopped", id, st.Phase, st.Generation, st.Reason)
		}
	}
}

// checkForgotten: nothing is kept of jobs that ended long ago, nor of nodes that are gone for good.
func (s *storm) checkForgotten() {
	for _, id := range s.mirror.JobIDs() {
		if v := s.mirror.Job(id); v.State.Value.Phase.Terminal() {
			s.fault("I12: %s ended at %v and is still kept", id, v.State.Value.Since)
		}
	}
	for _, n := range s.nodes {
		if v := s.mirror.Nodes[n.Node]; n.scrapped && v != nil && !s.mirror.Quoted(v) {
			s.fault("I12: of %s, which was removed, is left: %+v", n.Node, *v)
		}
	}
}

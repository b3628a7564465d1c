package sim

import (
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

var owner = cluster.Owner{UID: 1000, GID: 1000, User: "sim"}

// submit is a user submitting a job.
func (w *world) submit(j *job) {
	s := spec(j.Job, j.index)
	if w.rules == nil { // which know by themselves: work that they do not count must not look done
		w.cfg.Know.said(j, &s)
	}
	if j.Deadline > 0 && !j.BestEffort {
		at := zero.Add(j.Deadline)
		s.Deadline, s.Grace = &at, cluster.Duration(j.Grace)
	}
	j.phase, j.waitsSince = cluster.Queued, j.Submit
	w.eventful = true
	w.open = append(w.open, j)
	w.came = append(w.came, j)
	w.tellKind(j, &s)
	w.log.add(w.now, codeSubmitted, j.ID, j.MinWorkers, j.MaxWorkers, int64(j.Work))
	w.write(record.Put(record.RequestKey(w.entry().Node, jobName(j.index)), record.Request{
		Kind: record.SubmitRequest, Job: j.id, Spec: &s, Owner: owner, At: zero.Add(w.now),
	}))
	if w.rules != nil {
		w.rules.state.Arrived = append(w.rules.state.Arrived, j.index)
	}
	if j.Patience > 0 {
		w.at(w.now+j.Patience, func() { w.giveUp(j) })
	}
}

// giveUp is its owner stopping a job.
func (w *world) giveUp(j *job) {
	if j.phase.Terminal() {
		return
	}
	w.log.add(w.now, codeGivenUp, j.ID)
	w.write(record.Put(record.RequestKey(w.entry().Node, "stop-"+jobName(j.index)), record.Request{
		Kind: record.StopRequest, Job: j.id, Owner: owner, At: zero.Add(w.now),
	}))
}

// entry is the node that takes submissions in: the first that is up, or any.
func (w *world) entry() *node {
	for _, n := range w.nodes {
		if n.Up() {
			return n
		}
	}
	return w.nodes[0]
}

// lose takes a node away, with all its workers, for some time.
func (w *world) lose(n *node, length time.Duration) {
	if !n.Up() {
		return
	}
	w.log.add(w.now, codeLost, n.Node)
	for _, j := range w.jobs {
		if g := j.gen; g != nil && !g.gone && !g.frozen && hasMember(g, n) {
			j.advance(w.now)
			g.frozen = true
			w.rollBack(j, g)
		}
	}
	w.react()
	n.PowerOff()
	w.at(w.now+nodeTTL, func() { w.write(record.Delete(record.AliveKey(n.Node))) })
	w.at(w.now+length, func() { w.back(n) })
}

// rollBack takes what was trained since the last periodic checkpoint. Only the last
// of those is saved, and only now, while the node that is lost still has power.
func (w *world) rollBack(j *job, g *generation) {
	kept := time.Duration(0)
	if w.cfg.CheckpointEvery > 0 && g.started && w.now > g.planned {
		kept = (w.now - g.planned).Truncate(w.cfg.CheckpointEvery) - w.startCost(j, g)
	}
	j.done = j.saved + max(0, kept.Seconds())*g.speed
	if step := j.step(); j.done > j.saved && step > j.commit {
		j.commit, j.saved = step, j.done
		for _, s := range g.shims {
			s.Saved(step, step)
		}
	}
}

func hasMember(g *generation, n *node) bool {
	_, _, ok := g.world.Member(n.Node)
	return ok
}

// back is a node that comes back. Its agent finds nothing of what it ran.
func (w *world) back(n *node) {
	w.log.add(w.now, codeBack, n.Node)
	w.appear(n)
}

package agent

import (
	"cmp"
	"fmt"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

// A generation is prepared before it is planned, beside the one that trains:
//
//	next ──► WriteReady (begun) ──► PrepareShim ──► unbound ──► WriteReady (ready, or cold)
//	                                                   │ plan of this nonce, everything older gone, checkpoint sound
//	                                                   └──► BindRun ──► bound ──► Push with Start ──► as any run
//
// From the first of these records on its processes may exist. They have no device and nothing of
// the job's state, and may end, or be ended, at any time; but they run the job's script, so the leader
// waits for them as for workers: the record goes when nothing of the run is left, or when it is a part of a
// generation whose acknowledgements speak of it. See ADR 53.

// preparing is a generation that this node is asked to prepare, or was, with what it has said of that.
type preparing struct {
	*planner
	x part
	r Run
	// asked: Ready, what this node has said, answers Next, what the leader asks for. False if either is missing.
	asked bool
}

func (p *planner) preparing(x part) preparing {
	return preparing{p, x, x.run, x.Ready != nil && x.Next != nil && x.Ready.For(*x.Next)}
}

// follow prepares the generation's workers, and records how far that is. If they ended although this agent
// prepared them, in this life of the node, they would end again: the generation starts cold here. If they ended
// together with an earlier agent or an earlier life of the node, they are prepared anew.
func (g preparing) follow() {
	r := g.r
	switch {
	case g.newerPlan(g.x) != 0:
		g.clear(g.x, "a newer generation is planned")
	case r.Shim == Absent:
		g.begin()
	case !r.unbound() || r.Nonce != g.x.Next.Nonce:
		g.clear(g.x, "another generation of this number is prepared")
	case r.useless() && g.d.AliveRev == 0:
		// Wait: without a life the node cannot tell whether this life has prepared it.
	case r.useless() && r.Earlier && g.saidReady():
		g.tell(record.Ready{}) // so that no decision counts on it any more
	case r.useless():
		if !r.Earlier && !g.saidCold() && !g.saidReady() {
			g.tell(record.Ready{Cold: g.spoilt()})
		}
		g.clear(g.x, "what was prepared is of no use")
	default:
		g.wait()
	}
}

// saidCold reports whether this node has recorded that the generation starts cold here, saidReady that its workers are parked.
func (g preparing) saidCold() bool  { return g.asked && g.x.Ready.Cold != "" }
func (g preparing) saidReady() bool { return g.asked && g.x.Ready.Cold == "" && !g.saidBegun() }

// saidBegun reports whether it has recorded that processes may exist, and nothing since.
func (g preparing) saidBegun() bool {
	return g.asked && g.x.Ready.Begun && g.x.Ready.Cold == "" && g.x.Ready.Workers == 0
}

// begin says that processes of the generation may exist from now on, and then starts its shim.
func (g preparing) begin() {
	r := g.r
	switch {
	case g.d.AliveRev == 0 || g.x.Spec == nil:
	case g.x.Ready != nil && g.x.Ready.Begun && !r.gone(): // an earlier agent may have started it
		g.sweep(g.x)
	case g.saidCold(): // it is known why
		g.tell(record.Ready{Cold: g.x.Ready.Cold})
	case r.Unprepared != "" && r.Nonce == g.x.Next.Nonce:
		g.tell(record.Ready{Cold: r.Unprepared})
	case g.saidReady() && g.x.Ready.AliveRev == g.d.AliveRev: // once is enough: what ends by itself would do so again
		g.tell(record.Ready{Cold: "what was prepared has ended"})
	case g.noRoom(1) != "": // not even a byte
		g.tell(record.Ready{Cold: g.noRoom(1)})
	case g.othersPrepared():
	case !g.saidBegun() || g.x.Ready.AliveRev != g.d.AliveRev:
		g.tell(record.Ready{Begun: true})
	default:
		g.admit(1)
		g.add(PrepareShim{target: g.x.target, Spec: *g.x.Spec, Next: *g.x.Next})
	}
}

// othersPrepared reports whether parked processes of another generation of the job exist here, or may by the records.
func (g preparing) othersPrepared() bool {
	for jg, r := range g.runs {
		if jg.Job == g.x.JobGen.Job && jg != g.x.JobGen && r.unbound() && r.Shim != Absent && !r.ended() {
			return true
		}
	}
	for _, other := range g.d.Goals {
		if other.Job == g.x.JobGen.Job && other.of() != g.x.JobGen && other.Ready != nil && other.Ready.Begun {
			return true
		}
	}
	return false
}

// wait says how far the preparation is, while the run waits for its plan.
func (g preparing) wait() {
	r, asked := g.r, g.x.Next
	if w := r.Pushed; w != nil && w.Kill != "" { // which cannot be called off
		if !g.saidCold() {
			g.tell(record.Ready{Cold: "it was told to end: " + w.Kill})
		}
		g.clear(g.x, w.Kill)
		return
	}
	var parked run.Prepared
	if r.Report != nil && r.Report.Prepared != nil {
		parked = *r.Report.Prepared
	}
	if !parked.Settled(asked.Workers) {
		g.push(g.x, waiting(g.d.Deadline, asked))
		g.tell(record.Ready{Workers: parked.Workers, Memory: parked.Memory})
		return
	}
	if why := g.noRoom(parked.Memory); why != "" {
		g.tell(record.Ready{Cold: why})
		g.clear(g.x, why)
		return
	}
	g.admit(g.counted(parked.Memory))
	g.push(g.x, waiting(g.d.Deadline, asked))
	workers := 0
	if parked.Cold == "" { // a shim that does not say how many forks as many as are needed
		workers = cmp.Or(parked.Workers, max(1, asked.Workers))
	}
	g.tell(record.Ready{Cold: parked.Cold, Workers: workers, Memory: parked.Memory})
}

// waiting is the wish for a prepared run that has no plan yet.
func waiting(deadline int64, next *record.Next) run.Wish {
	w := run.Wish{Deadline: deadline}
	if next != nil {
		w.Workers = next.Workers
	}
	return w
}

// useless reports whether a prepared run has ended, or cannot be given its plan.
func (r Run) useless() bool {
	return r.Binding == Spoiled || r.Shim == Dead || r.Report != nil && (r.Report.Stopped != nil || r.Report.Failed != nil)
}

// counted returns how much of this memory, in bytes, no limit has counted yet: none if this node has recorded the preparation as ready.
func (g preparing) counted(memory int64) int64 {
	if g.d.LauncherMemory == 0 || g.x.Ready != nil && g.x.Ready.Of(*g.x.Next) && g.x.Ready.Cold == "" {
		return 0
	}
	return memory
}

// admit counts memory as taken for the rest of this plan.
func (p *planner) admit(memory int64) { p.admitted += memory }

// noRoom says why processes that take so much memory are too many beside those that this node has
// said to be ready; empty if they are not, or are of them. Those that still start are counted
// when they are ready: how much they will have is not known before.
func (g preparing) noRoom(memory int64) string {
	if memory = g.counted(memory); memory == 0 {
		return ""
	}
	others := g.admitted
	for _, o := range g.d.Goals {
		if o.of() != g.x.JobGen && g.runs[o.of()].Binding == Unbound && o.Next != nil && o.Ready != nil && o.Ready.For(*o.Next) && o.Ready.Cold == "" {
			others += o.Ready.Memory
		}
	}
	if others+memory <= g.d.LauncherMemory {
		return ""
	}
	why := fmt.Sprintf("processes that wait may have %d MiB of this node's memory (the agent's --launcher-memory), and others have %d", g.d.LauncherMemory>>20, others>>20)
	if memory > 1 {
		why += fmt.Sprintf(", its own %d", memory>>20)
	}
	return why
}

// spoilt says why the run is of no use.
func (g preparing) spoilt() string {
	if g.r.Report != nil && g.r.Report.Failed != nil {
		return g.r.Report.Failed.Reason
	}
	return "the process that prepares it (bellows shim) has ended"
}

// bind gives a prepared run its plan once its workers may be started. A run that must not start workers or is of no
// use is ended, and the generation starts cold. So is a run that was told to end before its plan came: a kill cannot be
// called off.
func (p *planner) bind(x part) {
	r := x.run
	if told := r.Pushed != nil && r.Pushed.Kill != ""; told || r.useless() || !p.startable(x) {
		p.clear(x, "its generation is not started from what was prepared")
		return
	}
	p.push(x, waiting(p.d.Deadline, x.Next))
	switch {
	case p.d.AliveRev == 0 || x.Spec == nil || r.Shim != Live:
	case x.Plan.Resume != nil && !r.Verified:
		p.add(Verify{target: x.target, Spec: *x.Spec, Plan: *x.Plan, Whole: x.rank0})
	case !p.othersLive(x):
		p.add(BindRun{target: x.target, Spec: *x.Spec, Plan: *x.Plan})
	}
}

// tell records how far a preparation is, in this life of the node, if that is not what was recorded last. Memory
// alone is no news, nor are more processes than were asked for.
func (g preparing) tell(said record.Ready) {
	said.Generation, said.Nonce, said.At, said.AliveRev = g.x.Next.Generation, g.x.Next.Nonce, g.now.Now, g.d.AliveRev
	said.Begun = said.Begun || g.r.Shim != Absent
	said.Cold = record.Reason(said.Cold)
	old := g.x.Ready
	known := g.asked && old.Begun == said.Begun && (old.AliveRev == said.AliveRev || !said.Begun) && old.Cold == said.Cold
	if g.d.AliveRev == 0 || known && (old.Workers == said.Workers || said.Workers > 0 && old.Of(*g.x.Next)) {
		return
	}
	g.add(WriteReady{target: g.x.target, Ready: &said})
}

// forget deletes what was said of a preparation when it speaks of nothing any more: when nothing of the run is left, or
// its generation has started here, whose acknowledgements speak of it.
func (g preparing) forget() {
	x := g.x
	if !x.Read || x.Ready == nil || g.d.AliveRev == 0 || x.Plan == nil && x.Next != nil && g.newerPlan(x) == 0 {
		return
	}
	bound := x.Plan != nil && x.member.Node != "" && x.Plan.World.Nonce == x.Ready.Nonce
	switch {
	case bound && x.Acks.Started.Exists(), bound && x.Acks.Stopped.Exists(), !bound && x.run.ended():
		g.add(WriteReady{target: x.target})
	case bound:
	case x.Ready.Begun && x.run.Shim == Absent && !x.Granted:
		g.sweep(x)
	case !x.Ready.Begun && x.run.Shim == Absent: // by an older agent, or of what never began
		g.add(WriteReady{target: x.target})
	}
}

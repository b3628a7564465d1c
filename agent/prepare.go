package agent

import (
	"cmp"
	"fmt"

	"github.com/bellows-ml/bellows/record"
)

// A generation is prepared before it is planned, beside the one that trains:
//
//	next ──► PrepareShim ──► unbound ──► WriteReady
//	                            │ plan of this nonce, everything older gone, checkpoint sound
//	                            └──► BindRun ──► bound ──► Push with Start ──► as any run
//
// Until it is bound a run has no worker, no device and nothing of the job's state: it may end, or
// be ended, at any time, and no acknowledgement ever speaks of it. See ADR 53.

// prepare starts what a generation's workers will be forked from, and says how far that is. What this agent
// has prepared in this life of the node and that has ended would end again: the generation starts cold here. Any
// other may have ended together with its agent or its node, and is prepared anew.
func (p *planner) prepare(x part) {
	r, said := x.run, x.Ready != nil && x.Ready.Of(*x.Next)
	switch {
	case r.Shim == Absent:
		if p.d.AliveRev == 0 || x.Spec == nil {
			return
		}
		if why := r.Unprepared; why != "" && r.Nonce == x.Next.Nonce {
			p.tell(x, record.Ready{Cold: why})
			return
		}
		if said {
			if x.Ready.Cold == "" { // else it is known why
				p.tell(x, record.Ready{Cold: "what was prepared has ended"})
			}
			return // once is enough: what ends by itself would do so again
		}
		if why := p.noRoom(x, 1); why != "" { // not even a byte
			p.tell(x, record.Ready{Cold: why})
			return
		}
		p.add(PrepareShim{target: x.target, Spec: *x.Spec, Next: *x.Next})
	case !r.unbound() || r.Nonce != x.Next.Nonce:
		p.clear(x, "another generation of this number is prepared")
	case r.useless() && p.d.AliveRev == 0:
		// Whether it is of this life of the node is known once that has begun.
	case r.useless() && r.Earlier && said && x.Ready.Cold == "":
		p.add(WriteReady{target: x.target}) // so that no decision counts on it any more
	case r.useless():
		if !r.Earlier && !said {
			p.tell(x, record.Ready{Cold: p.spoilt(r)})
		}
		p.clear(x, "what was prepared is of no use")
	default:
		if w := r.Pushed; w != nil && w.Kill != "" { // which cannot be called off
			if !said || x.Ready.Cold == "" {
				p.tell(x, record.Ready{Cold: "it was told to end: " + w.Kill})
			}
			p.clear(x, w.Kill)
			return
		}
		rep := r.Report
		if rep == nil || rep.Prepared == nil || !rep.Prepared.settled(x.Next.Workers) {
			p.push(x, waiting(p.d.Deadline, x.Next))
			return
		}
		if why := p.noRoom(x, rep.Prepared.Memory); why != "" {
			p.tell(x, record.Ready{Cold: why})
			p.clear(x, why)
			return
		}
		p.push(x, waiting(p.d.Deadline, x.Next))
		parked := 0
		if rep.Prepared.Cold == "" { // a shim that does not say how many forks as many as are needed
			parked = cmp.Or(rep.Prepared.Workers, max(1, x.Next.Workers))
		}
		p.tell(x, record.Ready{Cold: rep.Prepared.Cold, Workers: parked, Memory: rep.Prepared.Memory})
	}
}

// waiting is what a prepared run is told until it has its plan.
func waiting(deadline int64, next *record.Next) Wish {
	w := Wish{Deadline: deadline}
	if next != nil {
		w.Workers = next.Workers
	}
	return w
}

// settled reports whether so many processes are parked, or none will be. A shim that does not say how many
// has a launcher, from which any number is forked.
func (p *Prepared) settled(workers int) bool {
	return p.Cold != "" || p.Ready && (p.Workers == 0 || p.Workers >= workers)
}

// useless reports whether a prepared run has ended, or cannot be given its plan.
func (r Run) useless() bool {
	return r.Binding == Spoiled || r.Shim == Dead || r.Report != nil && (r.Report.Stopped != nil || r.Report.Failed != nil)
}

// noRoom says why a launcher that takes so much memory is too much beside those that this node has
// said to be ready; empty if it is not, or is one of them. Those that still import are counted
// when they are ready: how much they will have is not known before.
func (p *planner) noRoom(x part, memory int64) string {
	if p.d.LauncherMemory == 0 || memory == 0 || x.Ready != nil && x.Ready.Of(*x.Next) && x.Ready.Cold == "" {
		return ""
	}
	var others int64
	for _, g := range p.d.Goals {
		if g.of() != x.JobGen && p.runs[g.of()].Binding == Unbound && g.Next != nil && g.Ready != nil && g.Ready.For(*g.Next) && g.Ready.Cold == "" {
			others += g.Ready.Memory
		}
	}
	if others += p.admitted; others+memory <= p.d.LauncherMemory {
		p.admitted += memory
		return ""
	}
	why := fmt.Sprintf("processes that wait may have %d MiB of this node's memory (the agent's --launcher-memory), and others have %d", p.d.LauncherMemory>>20, others>>20)
	if memory > 1 {
		why += fmt.Sprintf(", its own %d", memory>>20)
	}
	return why
}

// spoilt says why a prepared run is of no use.
func (p *planner) spoilt(r Run) string {
	if r.Report != nil && r.Report.Failed != nil {
		return r.Report.Failed.Reason
	}
	return "the process that prepares it (bellows shim) has ended"
}

// bind gives a prepared run its plan, when its workers may be started. One whose workers must not
// be started, or that is of no use, ends, and the generation goes on as if there were none. So
// does one that was told to end, as nothing asked for it any more: a kill cannot be called off.
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

// tell records how far a preparation is, if that is not what was recorded last. Memory
// alone is no news.
func (p *planner) tell(x part, said record.Ready) {
	said.Generation, said.Nonce, said.At = x.Next.Generation, x.Next.Nonce, p.now.Now
	if p.d.AliveRev == 0 || x.Ready != nil && x.Ready.Of(*x.Next) && x.Ready.Cold == record.Reason(said.Cold) { // also of more than were asked for
		return
	}
	p.add(WriteReady{target: x.target, Ready: &said})
}

// unready deletes what was said of a preparation that nothing asks for any more.
func (p *planner) unready(x part) {
	if x.Read && x.Ready != nil && x.Next == nil && p.d.AliveRev != 0 && x.run.Shim == Absent {
		p.add(WriteReady{target: x.target})
	}
}

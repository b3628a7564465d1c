package agent

import (
	"cmp"
	"slices"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Plan says what to do next, sorted by job and generation. No action depends on
// another of the same answer; what may only follow is planned once the first shows.
//
// A generation's life on a node:
//
//	            permit, same life, checkpoint sound, older generations gone
//	(nothing) ──────────────────────────────────────────► starting ──► live ──► gone ──► acked stopped ──► removed
//	    └── no permit any more, halted, or refused ─────────────────────────────► gone
//
// Nothing is known for nothing only of a generation that no earlier agent can have
// started. Else the directory may be what is lost, and the processes live: it is
// swept before anything is started or acknowledged as stopped.
func Plan(d Desired, o Observed) []Action {
	p := &planner{d: d, now: o, goals: map[record.JobGen]Goal{}, runs: map[record.JobGen]Run{}}
	var all []record.JobGen
	for _, g := range d.Goals {
		p.goals[g.of()] = g
		all = append(all, g.of())
	}
	for _, r := range o.Runs {
		p.runs[r.of()] = r
		all = append(all, r.of())
	}
	for jg, g := range p.goals {
		r := p.runs[jg]
		if r.Shim != Absent {
			continue
		}
		if g.Plan != nil && r.Nonce != g.Plan.World.Nonce { // what was found out for the start of another of its number
			r = Run{Nonce: g.Plan.World.Nonce}
		}
		r.Job, r.Generation, r.Swept = jg.Job, jg.Generation, r.Swept || g.Fresh
		p.runs[jg] = r
	}
	slices.SortFunc(all, func(a, b record.JobGen) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Generation, b.Generation))
	})
	for _, jg := range slices.Compact(all) {
		p.generation(jg)
	}
	return p.actions
}

type planner struct {
	d       Desired
	now     Observed
	goals   map[record.JobGen]Goal
	runs    map[record.JobGen]Run
	actions []Action
	// admitted is the memory of launchers that this plan has said to be ready, or to be started.
	admitted int64
}

// part is one generation on this node with everything known of it.
type part struct {
	target
	Goal
	run    Run
	member cluster.Member // this node's part of the world
	rank0  bool           // this node hosts rank 0
}

// strange reports whether the run is of another generation of the same number, of
// a timeline of etcd that is lost. It is nothing that the plan asks for, and is never
// acknowledged as that.
func (x part) strange() bool { return x.Plan != nil && x.run.Nonce != x.Plan.World.Nonce }

func (p *planner) add(a Action) { p.actions = append(p.actions, a) }

func (p *planner) generation(jg record.JobGen) {
	x := part{target: target{jg}, Goal: p.goals[jg], run: p.runs[jg]}
	x.run.Job, x.run.Generation = jg.Job, jg.Generation
	member, index, ours := cluster.Member{}, 0, false
	if x.Plan != nil && x.Plan.Of(jg.Job, jg.Generation) {
		member, index, ours = x.Plan.World.Member(p.d.Node)
	}
	x.member, x.rank0 = member, ours && index == 0
	p.preparing(x).forget()
	switch {
	case !x.Read:
		p.keep(x)
	case !ours && x.Granted:
		p.disown(x)
	case x.Plan == nil && x.Next != nil:
		p.preparing(x).follow()
	case x.Plan == nil:
		p.collect(x)
	case !ours:
		p.clear(x, "the plan has no worker on this node")
	case x.strange():
		p.clear(x, "another generation of this number is planned: etcd was restored from a backup")
	default:
		p.follow(x)
	}
}

// keep moves the deadline of a run whose records are not known yet, and lets
// everything else be: who knows nothing must not take a halt back.
func (p *planner) keep(x part) {
	if x.run.Pushed == nil {
		return
	}
	w := *x.run.Pushed
	w.Deadline = p.d.Deadline
	p.push(x, w)
}

// collect ends what is left of a generation that the leader has forgotten.
func (p *planner) collect(x part) {
	if x.run.Shim != Absent {
		p.clear(x, "the generation's records are gone")
		return
	}
	if x.kept() && p.d.AliveRev != 0 {
		p.add(Forget{x.target})
	}
}

// disown ends a generation of which this node holds grants although no plan names
// the node: one that a hand has deleted or changed. The leader does not know what
// runs here, and starts no other generation before the node has said that nothing does.
func (p *planner) disown(x part) {
	switch {
	case x.run.Shim != Absent:
		p.clear(x, "devices are granted to it, and no plan says what for")
	case x.Acks.Stopped.Exists():
	case !x.run.gone():
		p.sweep(x)
	case p.d.AliveRev != 0:
		said := record.Stopped{ExitedAt: p.now.Now}
		if x.Plan != nil {
			said.Nonce = x.Plan.World.Nonce
		}
		p.add(WriteAck{target: x.target, Ack: record.AckStopped, Value: said})
	}
}

// clear removes a run that is not wanted, and writes nothing about it.
func (p *planner) clear(x part, why string) {
	w := run.Wish{Deadline: p.d.Deadline, Kill: why, Retire: true}
	p.push(x, w)
	p.tidy(x)
}

// follow does what the records ask.
func (p *planner) follow(x part) {
	if x.run.unbound() && x.run.Shim != Absent {
		p.bind(x)
		return
	}
	if x.run.Shim == Absent && p.startable(x) {
		if p.d.AliveRev != 0 && x.Spec != nil {
			p.begin(x)
		}
		return
	}
	p.push(x, p.wish(x))
	savesDone := p.checkpoints(x)
	if p.d.AliveRev != 0 {
		p.acknowledge(x, savesDone)
	}
	switch {
	case x.Acks.Stopped.Exists(), p.stillborn(x):
		p.tidy(x)
	case x.run.Shim == Dead, x.run.Shim == Absent, x.run.hangs():
		p.sweep(x)
	}
}

// begin starts the workers, once what they resume from is known to be sound.
func (p *planner) begin(x part) {
	switch {
	case !x.run.gone():
		p.sweep(x)
	case x.Plan.Resume != nil && !x.run.Verified:
		p.add(Verify{target: x.target, Spec: *x.Spec, Plan: *x.Plan, Whole: x.rank0})
	case !p.othersLive(x):
		p.add(StartShim{target: x.target, Spec: *x.Spec, Plan: *x.Plan})
	}
}

// startable reports whether workers may be started once older generations are
// out of the way. A permit is not enough: a plan made for an earlier life of
// this node counts on devices and processes that may be gone.
func (p *planner) startable(x part) bool {
	return x.Permit && x.Halt == nil && !x.acked() && x.run.Refused == nil && p.sameLife(x) && p.newerPlan(x) == 0
}

// sameLife reports whether the plan was made for this life of the node. While
// the node has no alive key this is unknown, and nothing is decided by it.
func (p *planner) sameLife(x part) bool {
	return p.d.AliveRev == 0 || x.member.AliveRev == p.d.AliveRev
}

// othersLive reports whether another generation of the job may still have processes
// here: one with a run, be it one that waits for a plan, or of a later number, from a timeline of etcd that is lost;
// or an older one that this node was a member of and has not stopped.
func (p *planner) othersLive(x part) bool {
	for jg, r := range p.runs {
		if jg.Job == x.JobGen.Job && jg != x.JobGen && r.Shim != Absent && !r.ended() {
			return true
		}
	}
	for jg, g := range p.goals {
		older := jg.Job == x.JobGen.Job && jg.Generation < x.JobGen.Generation
		if !older || g.Plan == nil || g.Acks.Stopped.Exists() || p.runs[jg].gone() {
			continue
		}
		if _, _, ours := g.Plan.World.Member(p.d.Node); ours {
			return true
		}
	}
	return false
}

// newerPlan returns the newest generation planned after x, 0 if x is the newest.
func (p *planner) newerPlan(x part) cluster.Generation {
	newest := cluster.Generation(0)
	for _, g := range p.d.Goals {
		if g.Job == x.JobGen.Job && g.Generation > x.JobGen.Generation && g.Plan != nil {
			newest = max(newest, g.Generation)
		}
	}
	return newest
}

// stillborn reports whether the run never came to a report and may be tried
// again: an agent died between preparing the shim and hearing from it.
func (p *planner) stillborn(x part) bool {
	return x.run.Shim == Dead && x.run.Report == nil && p.startable(x)
}

// tidy removes a run that has nothing more to say: its shim retires by itself
// once it is told to, one that is dead or does not go is swept first.
func (p *planner) tidy(x part) {
	switch {
	case x.run.hangs():
		p.add(Sweep{x.target})
	case x.run.Shim != Dead:
	case x.run.gone():
		p.add(RemoveRun{x.target})
	default:
		p.add(Sweep{x.target})
	}
}

func (p *planner) sweep(x part) {
	if !x.run.gone() {
		p.add(Sweep{x.target})
	}
}

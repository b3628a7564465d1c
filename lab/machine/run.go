package machine

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// directory is a run directory: what an agent's successor finds of a generation.
type directory struct {
	order  Order
	shim   *Shim       // whose process may have ended
	report *run.Report // as the shim last wrote it; nil = never
	lost   map[int64]string
}

// known is one generation's part on this node as the agent knows it.
type known struct {
	jg          record.JobGen
	nonce       string
	dir         *directory // nil of one that was never started here, or whose directory is gone
	state       agent.Shim
	report      *run.Report
	saves       []run.Save // of more steps than the report holds
	pushed      *run.Wish
	refused     *record.Failed
	verified    bool
	swept       bool
	unkillable  []int  // what has survived the last sweep
	killPending bool   // and runs no code of its own again
	killed      bool   // by the agent, past the deadline
	unprepared  string // why it could not be prepared
	life        int64  // in which this agent has prepared it; 0 = it has not
	spoiled     bool   // its plan could not be put into its directory
	deadline    int64  // what the agent itself holds the workers to; 0 = not known

	toldToKill, toldToGo, changed time.Duration
	wasToldToKill, wasToldToGo    bool

	digests map[int64]agent.Work[record.Saved]
	merges  map[int64]agent.Work[record.Offer]
	plain   *agent.Plain
}

func (m *Machine) newRun(jg record.JobGen, nonce string, state agent.Shim) *known {
	r := &known{
		jg: jg, nonce: nonce, state: state, changed: m.Outside.Now(),
		digests: map[int64]agent.Work[record.Saved]{}, merges: map[int64]agent.Work[record.Offer]{},
	}
	m.runs[jg] = r
	return r
}

// seen is a run in the words of Plan.
func (m *Machine) seen(r *known) agent.Run {
	since := func(at time.Duration, was bool) time.Duration {
		if !was {
			return 0
		}
		return m.Outside.Now() - at
	}
	return agent.Run{
		Job: r.jg.Job, Generation: r.jg.Generation, Nonce: r.nonce,
		Shim: r.state, Report: r.report, Pushed: r.pushed, Refused: r.refused, Verified: r.verified,
		Swept: r.swept || r.state == agent.Absent && m.fresh(r.jg), Killed: r.killed, KillPending: m.pendingKills(r),
		ToldToKill: since(r.toldToKill, r.wasToldToKill), ToldToGo: since(r.toldToGo, r.wasToldToGo),
		Binding: r.binding(), Unprepared: r.unprepared, Earlier: r.life != m.rev,
		Digests: r.digests, Merges: r.merges, Plain: r.plain, Quiet: m.Outside.Now() - r.changed,
	}
}

// survivors are the processes of a run that SIGKILL does not end; killPending says that
// they never run code of their own again.
func (r *known) survivors() (pids []int, killPending bool) {
	switch {
	case r.swept, r.state == agent.Absent:
		return nil, false
	case len(r.unkillable) > 0:
		return r.unkillable, r.killPending
	case r.report != nil && r.report.Stopped == nil:
		return r.report.Unkillable, len(r.report.Unkillable) > 0
	}
	return nil, false
}

// pendingKills are the survivors that the job need not wait for: the node has recorded
// that their devices are given to nothing new.
func (m *Machine) pendingKills(r *known) []int {
	pids, killPending := r.survivors()
	if !killPending || r.dir == nil {
		return nil
	}
	recorded := m.own().Inventory.Value.Devices
	for _, d := range r.dir.order.Member.Devices {
		if slices.ContainsFunc(recorded, func(x cluster.Device) bool { return x.ID == d && x.Health == cluster.Healthy }) {
			return nil
		}
	}
	return pids
}

// reported takes a shim's report in. The copy is the agent's own.
func (m *Machine) reported(r *known, report run.Report) {
	if r.report != nil && r.report.Stopped != nil && report.Stopped == nil {
		return
	}
	r.saves = agent.Remember(r.saves, report.Saves)
	report.Saves = r.saves
	r.report, r.changed = &report, m.Outside.Now()
	m.Wake(r.jg.Job)
}

// shimEnded notes that a shim's process has ended, with the last that it wrote.
func (m *Machine) shimEnded(r *known) {
	if r.dir != nil && r.dir.report != nil {
		m.reported(r, *r.dir.report)
	}
	r.state, r.pushed, r.changed = agent.Dead, nil, m.Outside.Now()
	m.Wake(r.jg.Job)
}

// adopt takes over what earlier agents have left here.
func (m *Machine) adopt() {
	for jg, dir := range m.dirs {
		r := m.newRun(jg, dir.order.World.Nonce, agent.Dead)
		r.dir = dir
		for step, why := range dir.lost {
			r.digests[step] = m.lostWork(why)
		}
		if dir.report != nil {
			report := *dir.report
			r.report, r.saves = &report, report.Saves
		}
		if !dir.shim.ended {
			r.state = agent.Live
			if dir.shim.spoke {
				report := *dir.shim.Report()
				r.report, r.saves = &report, report.Saves
			}
		}
	}
}

// forgetRuns drops what was kept of runs that never came to be and are
// acknowledged as stopped, or that the leader has collected.
func (m *Machine) forgetRuns() {
	for jg, r := range m.runs {
		if r.state != agent.Absent {
			continue
		}
		grant := m.own().Grants[jg.Job]
		known := m.Outside.Records().Job(jg.Job).Generation(jg.Generation).Plan.Exists() || grant.Exists() && grant.Value.Generation == jg.Generation
		next := m.own().Next[jg.Job]
		known = known || next.Exists() && next.Value.Generation == jg.Generation || m.saidReady(jg).Exists()
		if !known || agent.AcksOf(m.Outside.Records(), m.Node, jg).Stopped.Exists() {
			delete(m.runs, jg)
		}
	}
}

// lookForPlain looks where a plain script saves: while it runs, and once more when
// it has ended. Scripts with the SDK report their saves.
func (m *Machine) lookForPlain() {
	for _, r := range m.runs {
		if r.report == nil || r.dir == nil || !r.dir.order.Rank0 || r.plain != nil && r.plain.Final {
			continue
		}
		ended := r.report.Stopped != nil || r.state == agent.Dead && r.swept
		if _, killPending := r.survivors(); killPending {
			ended = true
		}
		found := agent.Plain{Step: -1, Samples: -1}
		if p := r.dir.shim.plain; p != nil && len(r.report.Saves) == 0 {
			found = *p
		}
		found.Final = ended
		if ended || r.state == agent.Live && found.Step >= 0 && (r.plain == nil || *r.plain != found) {
			r.plain, r.changed = &found, m.Outside.Now()
		}
	}
}

// lostWork is a digest that came to nothing.
func (m *Machine) lostWork(why string) agent.Work[record.Saved] {
	why = record.Reason(why)
	return agent.Work[record.Saved]{Done: true, Err: why, Value: record.Saved{Lost: why, At: m.clock(), Samples: -1}}
}

package agent

import (
	"fmt"
	"maps"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// model is a node and its records, in memory: what Plan is told, and what
// becomes of that when an action is carried out.
type model struct {
	node     cluster.NodeID
	alive    int64
	deadline int64
	strict   bool
	revision int64
	goals    map[record.JobGen]*Goal
	runs     map[record.JobGen]*Run
}

func newModel() *model {
	return &model{node: "n1", alive: 10, revision: 100, goals: map[record.JobGen]*Goal{}, runs: map[record.JobGen]*Run{}}
}

// epoch is the model's only wall-clock time: no decision depends on it.
func epoch() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func (m *model) goal(jg record.JobGen) *Goal {
	g := m.goals[jg]
	if g == nil {
		g = &Goal{
			Job: jg.Job, Generation: jg.Generation, Read: true, Fresh: true,
			Saved: map[int64]record.Saved{}, Offers: map[int64]record.Offer{},
		}
		m.goals[jg] = g
	}
	return g
}

func (m *model) run(jg record.JobGen) *Run {
	r := m.runs[jg]
	if r == nil {
		r = &Run{
			Job: jg.Job, Generation: jg.Generation,
			Digests: map[int64]Work[record.Saved]{}, Merges: map[int64]Work[record.Offer]{},
		}
		m.runs[jg] = r
	}
	return r
}

func (m *model) report(jg record.JobGen) *Report {
	r := m.run(jg)
	if r.Report == nil {
		r.Report = &Report{Containment: "weak"}
	}
	return r.Report
}

func (m *model) peer(jg record.JobGen, n cluster.NodeID) *Peer {
	g := m.goal(jg)
	for i := range g.Peers {
		if g.Peers[i].Node == n {
			return &g.Peers[i]
		}
	}
	g.Peers = append(g.Peers, Peer{Node: n, Saved: map[int64]record.Saved{}})
	return &g.Peers[len(g.Peers)-1]
}

// plan asks Plan about everything as it is now. Map order is deliberate: the
// answer must not depend on it.
func (m *model) plan() []Action {
	d := Desired{Node: m.node, AliveRev: m.alive, Deadline: m.deadline, Strict: m.strict}
	for _, g := range m.goals {
		d.Goals = append(d.Goals, g.own())
	}
	o := Observed{Now: epoch()}
	for _, r := range m.runs {
		o.Runs = append(o.Runs, *r)
	}
	return Plan(d, o)
}

// own is the goal with what this node has said of the generation that is planned,
// as the host sees it.
func (g Goal) own() Goal {
	if g.Plan == nil {
		return g
	}
	nonce := g.Plan.World.Nonce
	g.Acks, g.Saved, g.Offers = g.Acks.Of(nonce), maps.Clone(g.Saved), maps.Clone(g.Offers)
	maps.DeleteFunc(g.Saved, func(_ int64, s record.Saved) bool { return s.Nonce != nonce })
	maps.DeleteFunc(g.Offers, func(_ int64, o record.Offer) bool { return o.Nonce != nonce })
	return g
}

// carryOut does what an action says, as the shell would once it has succeeded.
func (m *model) carryOut(a Action) {
	jg := a.Of()
	switch a := a.(type) {
	case Verify:
		*m.run(jg) = Run{
			Job: jg.Job, Generation: jg.Generation, Nonce: a.Plan.World.Nonce, Verified: true,
			Digests: map[int64]Work[record.Saved]{}, Merges: map[int64]Work[record.Offer]{},
		}
	case StartShim:
		m.run(jg).Shim, m.run(jg).Swept, m.run(jg).Nonce = Starting, false, a.Plan.World.Nonce
	case Push:
		m.run(jg).Pushed = &a.Wish
	case WriteAck:
		m.writeAck(jg, a)
	case Digest:
		m.run(jg).Digests[a.Step] = Work[record.Saved]{Done: true, Value: record.Saved{
			Dir: a.Dir, Ranks: a.Ranks, Samples: a.Samples, At: epoch().Add(time.Duration(a.Step) * time.Second),
		}}
	case WriteSaved:
		for _, step := range a.Drop {
			delete(m.goal(jg).Saved, step)
		}
		m.goal(jg).Saved[a.Step] = a.Saved
	case Merge:
		c := record.Checkpoint{Generation: jg.Generation, Step: a.Step, WorldSize: a.WorldSize}
		m.run(jg).Merges[a.Step] = Work[record.Offer]{Done: true, Value: record.Offer{Checkpoint: c}}
	case WriteOffer:
		for _, step := range a.Drop {
			delete(m.goal(jg).Offers, step)
		}
		m.goal(jg).Offers[a.Step] = a.Offer
	case Sweep:
		m.run(jg).Swept = true
	case RemoveRun:
		delete(m.runs, jg)
	case Forget:
		delete(m.goals, jg)
	default:
		panic(fmt.Sprintf("agent: the model does not know %T", a))
	}
}

func (m *model) writeAck(jg record.JobGen, a WriteAck) {
	g := m.goal(jg)
	m.revision++
	switch v := a.Value.(type) {
	case record.Started:
		g.Acks.Started = record.Versioned[record.Started]{Value: v, Create: m.revision, Mod: m.revision}
	case record.Held:
		g.Acks.Held = record.Versioned[record.Held]{Value: v, Create: m.revision, Mod: m.revision}
	case record.Failed:
		g.Acks.Failed = record.Versioned[record.Failed]{Value: v, Create: m.revision, Mod: m.revision}
	case record.Stopped:
		g.Acks.Stopped = record.Versioned[record.Stopped]{Value: v, Create: m.revision, Mod: m.revision}
	}
}

package machine

import (
	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// prepareRun starts the shim of a generation that has no plan yet.
func (m *Machine) prepareRun(a agent.PrepareShim) {
	jg := a.Of()
	if m.Faults.Unpreparable != nil {
		if why := m.Faults.Unpreparable(jg); why != "" {
			m.newRun(jg, a.Next.Nonce, agent.Absent).unprepared = why
			m.Wake(jg.Job)
			return
		}
	}
	order := Order{
		Spec: a.Spec, Prepared: true, Parks: max(1, a.Next.Workers), Deadline: m.deadline(),
		World: cluster.World{Job: jg.Job, Generation: jg.Generation, Nonce: a.Next.Nonce},
	}
	r := m.newRun(jg, a.Next.Nonce, agent.Live)
	s := m.newShim(jg, order)
	r.dir, r.life = &directory{order: order, shim: s}, m.rev
	r.deadline = order.Deadline
	m.dirs[jg] = r.dir
	s.step()
	m.Wake(jg.Job)
}

// park has so many processes more run ahead until they wait for the plan.
func (s *Shim) park(n int) {
	m := s.machine
	takes, cold := m.takes(agent.PrepareShim{}), ""
	if m.Faults.Prepares != nil && len(s.facts.Ahead.Parked) == 0 {
		takes, cold = m.Faults.Prepares(s)
	}
	s.parked = true
	s.facts.Ahead.Working, s.facts.Ahead.Failed = true, ""
	m.Outside.At(takes, func() {
		if !s.facts.Ahead.Working {
			return
		}
		s.facts.Ahead.Working = false
		switch {
		case s.state.Killing() || !s.parked:
			s.facts.Ahead.Failed = "it was given up"
		case cold != "":
			s.facts.Ahead.Failed = cold
		default:
			for range n {
				s.facts.Ahead.Parked = append(s.facts.Ahead.Parked, run.Parked{Place: "train.py:3 (reads RANK)", Memory: LauncherTakes})
			}
		}
		s.facts.Ahead.Living = len(s.facts.Ahead.Parked)
		s.facts.Ahead.Memory = int64(s.facts.Ahead.Living) * LauncherTakes
		s.step()
	})
}

// LoseLauncher ends what a prepared run waits with: its workers will start without.
func (s *Shim) LoseLauncher() {
	if !s.Unbound() || s.ended {
		return
	}
	if s.parked = false; len(s.facts.Ahead.Parked) == 0 {
		s.facts.Ahead.Working, s.facts.Ahead.Failed = false, "it has ended before it was parked"
	}
	for i := range s.facts.Ahead.Parked {
		s.facts.Ahead.Parked[i].Dead = true
	}
	s.step()
}

// bind puts the plan of a prepared run into its directory.
func (m *Machine) bind(at lane, a agent.BindRun) {
	r := m.runs[at.of]
	m.beside(at, m.takes(a), func() {
		r.changed = m.Outside.Now()
		if r.dir == nil || m.dirs[at.of] != r.dir {
			r.spoiled = true
			return
		}
		if m.Faults.Unbindable != nil && m.Faults.Unbindable(at.of) != "" {
			r.spoiled = true
			return
		}
		member, index, _ := a.Plan.World.Member(m.Node)
		o := &r.dir.order
		o.World, o.Member, o.Rank0, o.Resume, o.Planned = a.Plan.World, member, index == 0, a.Plan.Resume, true
	})
}

// binding is where a run stands with its plan.
func (r *known) binding() agent.Binding {
	switch {
	case r.spoiled:
		return agent.Spoiled
	case r.dir == nil || !r.dir.order.Prepared:
		return agent.Planned
	case r.dir.order.Planned:
		return agent.Bound
	}
	return agent.Unbound
}

// saidReady is how far this node has said to have prepared a generation; absent if it has not.
func (m *Machine) saidReady(jg record.JobGen) record.Versioned[record.Ready] {
	if ready := m.own().Ready[jg.Job]; ready.Value.Generation == jg.Generation {
		return ready
	}
	return record.Versioned[record.Ready]{}
}

// writeReady records how far a preparation of what is asked for is, or that there is none any more.
func (m *Machine) writeReady(at lane, a agent.WriteReady) {
	key, there := record.ReadyKey(m.Node, at.of.Job), m.own().Ready[at.of.Job]
	t := record.Txn{ID: a.String(), If: []record.Compare{m.stillHere(), record.Unchanged(key, there.Mod)}}
	if !there.Exists() {
		t.If[1] = record.Absent(key)
	}
	if a.Ready != nil {
		t.If = append(t.If, record.Unchanged(record.NextKey(m.Node, at.of.Job), m.own().Next[at.of.Job].Mod))
		t.Then = []record.Op{record.Put(key, *a.Ready)}
	} else {
		t.Then = []record.Op{record.Delete(key)}
	}
	m.write(at, t, nil)
}

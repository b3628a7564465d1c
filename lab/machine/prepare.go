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
		Spec: a.Spec, Prepared: true, Deadline: m.deadline(),
		World: cluster.World{Job: jg.Job, Generation: jg.Generation, Nonce: a.Next.Nonce},
	}
	r := m.newRun(jg, a.Next.Nonce, agent.Live)
	s := &Shim{JobGen: jg, Order: order, machine: m, parks: max(1, a.Next.Workers)}
	r.dir, r.life = &directory{order: order, shim: s}, m.rev
	r.deadline = order.Deadline
	m.dirs[jg], m.shims = r.dir, append(m.shims, s)
	s.waitForPlan()
	m.Wake(jg.Job)
}

// waitForPlan has the launcher come to be ready.
func (s *Shim) waitForPlan() {
	s.phase, s.parked, s.wish.Deadline = unbound, true, s.Order.Deadline
	prepared := run.Prepared{Ready: true, Parked: "train.py:3 (reads RANK)"}
	takes := s.machine.takes(agent.PrepareShim{})
	if s.machine.Faults.Prepares != nil {
		takes, prepared.Cold = s.machine.Faults.Prepares(s)
		if prepared.Cold != "" {
			prepared.Ready, prepared.Parked = false, ""
		}
	}
	s.machine.Outside.At(takes, func() {
		if !s.ended && s.killed == "" && !s.hangs {
			s.Report.Prepared, s.parked = &prepared, prepared.Ready
			s.park()
			s.tell()
		}
	})
	s.step()
}

// park has as many processes wait as are wanted.
func (s *Shim) park() {
	if p := s.Report.Prepared; p != nil && p.Ready {
		more := *p
		more.Workers, more.Memory = s.parks, int64(s.parks)*LauncherTakes
		s.Report.Prepared = &more
	}
}

// stepPark starts more of what waits, where more are wanted.
func (s *Shim) stepPark() {
	if s.phase != unbound || s.killed != "" || s.wish.Workers <= s.parks {
		return
	}
	s.parks = s.wish.Workers
	s.machine.Outside.At(s.machine.takes(agent.PrepareShim{}), func() {
		if s.phase == unbound && !s.ended && s.killed == "" && !s.hangs {
			s.park()
			s.tell()
		}
	})
}

// Unbound reports whether the shim waits for its plan.
func (s *Shim) Unbound() bool { return s.phase == unbound }

// LoseLauncher ends what a prepared run waits with: its workers will start without.
func (s *Shim) LoseLauncher() {
	if s.phase == unbound && !s.ended {
		s.Report.Prepared, s.parked = &run.Prepared{Cold: "the launcher has ended"}, false
		s.tell()
	}
}

// stepBind goes from a prepared run to one that starts, or to its end.
func (s *Shim) stepBind() {
	switch dir := s.machine.dirs[s.JobGen]; {
	case s.phase != unbound || s.killed != "":
	case s.wish.Start && dir != nil && dir.shim == s && dir.order.Planned:
		s.Order = dir.order
		s.Report.Warm = s.Report.Prepared != nil && s.Report.Prepared.Ready
		s.prepare(s.machine.takes(agent.StartShim{}))
	case s.wish.Retire:
		s.kill("cleared before it was told to start")
	}
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

package machine

import (
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// progressEvery is how often progress is recorded at most.
	progressEvery = 10 * time.Second
	// probeEvery is how often it is looked whether what a start has failed of is over.
	probeEvery = 3 * time.Second

	progressLane agent.Lane = "progress"
	probeLane    agent.Lane = "probe"
)

// PowerOn boots the machine and starts its agent.
func (m *Machine) PowerOn() {
	if !m.up {
		m.up = true
		m.StartAgent()
	}
}

// PowerOff ends everything that runs. Run directories lie in memory and go with it.
func (m *Machine) PowerOff() {
	m.StopAgent()
	m.up = false
	for _, s := range m.shims {
		s.powerOff()
	}
	m.shims = nil
	clear(m.dirs)
}

// StopAgent ends the agent. Shims and workers go on.
func (m *Machine) StopAgent() {
	m.agent, m.awake = false, false
	m.starts++
	m.forget()
}

// StartAgent starts the agent, which adopts what it finds.
func (m *Machine) StartAgent() {
	if m.up && !m.agent {
		m.agent = true
		m.forget()
		m.adopt()
		m.Tick()
	}
}

// CutOff keeps the agent from etcd for so long.
func (m *Machine) CutOff(until time.Duration) { m.cut = until }

// forget is what the end of an agent's process does to its memory.
func (m *Machine) forget() {
	m.memory = memory{
		runs: map[record.JobGen]*known{}, lanes: map[lane]bool{}, proofs: map[record.Checkpoint]bool{},
		collected: map[record.JobGen]bool{}, probes: map[record.JobGen]time.Duration{}, dirty: map[cluster.JobID]bool{}, all: true,
	}
}

// LoseDirectory removes a run directory behind the agent's back.
func (m *Machine) LoseDirectory(jg record.JobGen) { delete(m.dirs, jg) }

// Hang has a shim do nothing any more, or go on.
func (s *Shim) Hang(hangs bool) {
	s.hangs = hangs
	s.step()
}

// Crash ends a shim's own process. Its workers live on; what waits for a plan is killed by the shim's holder.
func (s *Shim) Crash() {
	s.end()
	if s.Parked() && !s.unkillable {
		s.dead()
	}
}

// Stillborn ends a shim as if it had died before its first report.
func (s *Shim) Stillborn() {
	s.end()
	if dir := s.machine.dirs[s.JobGen]; dir != nil {
		dir.report = nil
	}
	if r := s.machine.runs[s.JobGen]; r != nil {
		r.report = nil
	}
}

// powerOff ends a shim and all that it hosts, without a word.
func (s *Shim) powerOff() {
	s.ended, s.parked, s.locked, s.unkillable = true, false, false, false
	for i := range s.facts.Workers {
		s.gone(i, record.Exit{Code: -1, Signal: 9}, "the power was cut")
	}
}

// reap drops a shim of which no process is left.
func (m *Machine) reap(s *Shim) {
	m.shims = slices.DeleteFunc(m.shims, func(o *Shim) bool { return o == s })
}

// Tick is what the agent does by itself now and then: renew the lease, kill what
// has outlived its deadline, record progress, look what the leader has collected.
func (m *Machine) Tick() {
	if !m.up || !m.agent {
		return
	}
	m.watchdog()
	if !m.Reaches() {
		return
	}
	m.renew()
	m.writeInventory()
	m.writeProgress()
	m.Collect()
	m.all = true
	m.Step()
}

// renew renews the lease when that is due, and begins a new life where it is gone.
func (m *Machine) renew() {
	now := m.Outside.Now()
	if m.rev != 0 && (m.Leases == nil || now < m.renewed+fence.RenewEvery) {
		return
	}
	if m.Leases != nil && (m.lease == 0 || m.Leases.KeepAlive(m.lease) != nil) {
		m.rev = 0
		m.lease = m.Leases.Grant(fence.TTL)
	}
	m.renewed = now
	if m.rev == 0 {
		m.enter()
	}
	m.all = true
}

// enter makes the alive key this agent's own. A key of this lease is of the life
// that a predecessor has begun, which goes on.
func (m *Machine) enter() {
	key, alive := record.AliveKey(m.Node), m.own().Alive
	t := record.Txn{ID: "alive", Then: []record.Op{record.PutLeased(key, m.Alive, m.lease)}}
	switch {
	case !alive.Exists():
		t.If = []record.Compare{record.Absent(key)}
		seq := record.Newest(m.own().Told).Value.Seq + 1
		t.Then = append(t.Then, record.Put(record.NodeEventKey(m.Node, seq), record.Event{Seq: seq, At: m.clock(), Kind: record.NodeJoined, Node: m.Node}))
	case m.Leases == nil || alive.Create == m.kept:
		t.If = []record.Compare{record.SameLife(key, alive.Create)}
	default:
		return // its name is in use, until the lease of that life ends
	}
	out := m.Outside.Commit(t)
	if out.Result != record.Applied {
		return // the next Tick tries again
	}
	m.rev = alive.Create
	if !alive.Exists() {
		m.rev = out.Revision
	}
	m.kept = m.rev
	if m.began == 0 {
		m.began = out.Revision
	}
}

// noticeAlive ends a life whose alive key is gone or is another's: the leader counts
// this node as lost, so it has to come back as a new one.
func (m *Machine) noticeAlive() {
	if alive := m.own().Alive; m.rev != 0 && alive.Create != m.rev {
		m.rev, m.lease = 0, 0
	}
}

// promise gives the word that workers here die when the lease is not renewed, once
// each shim has confirmed a deadline, and takes it back where the node is alone.
func (m *Machine) promise() {
	at := lane{what: "fencing"}
	if m.rev == 0 || m.lanes[at] || m.Leases == nil {
		return
	}
	say := func(life int64) {
		m.write(at, record.Txn{ID: "fencing", If: []record.Compare{m.stillHere()}, Then: []record.Op{
			record.Put(record.FencingKey(m.Node), record.Fencing{AliveRev: life, At: m.clock()}),
		}}, nil)
	}
	said, crowd := m.own().Fencing.Value.AliveRev, m.Crowd()
	switch {
	case crowd == 1 && said != 0:
		say(0)
	case fence.Strict(crowd) && said != m.rev && agent.Fenced(m.everything().Runs):
		say(m.rev)
	}
}

// everything is what is seen of all runs.
func (m *Machine) everything() agent.Observed {
	var all []record.JobGen
	for jg := range m.runs {
		all = append(all, jg)
	}
	slices.SortFunc(all, agent.Compare)
	return m.observed(all)
}

// watchdog kills workers that have outlived their deadline, as their shim did not.
func (m *Machine) watchdog() {
	times := agent.Times{Grace: fence.Grace, Patience: run.UnkillableAfter + fence.Grace}
	for _, o := range m.everything().Runs {
		r := m.runs[record.JobGen{Job: o.Job, Generation: o.Generation}]
		if r.deadline == 0 || r.deadline == fence.Never || r.dir == nil {
			continue
		}
		what := agent.Overdue(m.now(), r.deadline, o, times)
		if what == agent.KillNothing {
			continue
		}
		if s := r.dir.shim; s.holds() || !s.ended {
			r.killed, r.changed = true, m.Outside.Now()
			if what == agent.KillAll {
				s.end()
			}
			s.sigkill()
		}
	}
}

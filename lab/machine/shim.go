package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// lockEvery is how often a shim looks whether the devices' locks are free.
const lockEvery = 100 * time.Millisecond

// Order is what a shim is started with.
type Order struct {
	Spec     record.Submitted
	World    cluster.World
	Member   cluster.Member // this node's part
	Rank0    bool           // rank 0 is here
	Resume   *record.Checkpoint
	Deadline int64
	Prepared bool // it was started before its plan was known
	Planned  bool // it has one
	Parks    int  // how many processes a prepared run is to have wait
}

// order is what run.State carries out. Workers are always fenced: where the node does not, it says so by fence.Never.
func (o Order) order(node cluster.NodeID) run.Order {
	out := run.Order{
		Version: run.ProtocolVersion, Node: node, World: o.World, Resume: o.Resume, Checkpoint: o.Spec.CheckpointDir, Strict: true, Deadline: o.Deadline,
	}
	if o.Prepared {
		out.Prepare = &run.Prepare{Workers: o.Parks}
	}
	return out
}

// Shim is the process that hosts the workers of one generation here: production's run.State, with processes in memory.
// Its exported methods are for the script and for faults.
type Shim struct {
	record.JobGen
	Order
	PID int // of the first worker
	// Execed is when the workers were executed.
	Execed time.Duration
	// Deaf: workers do not notice SIGTERM.
	Deaf bool
	// Script is the script's own.
	Script any

	machine *Machine
	state   *run.State
	facts   run.Facts

	parked     bool // processes wait for a plan, or are on the way there
	executed   bool // workers were
	dying      bool // SIGKILL was sent to them
	unkillable bool // and they do not die of it
	locked     bool // it has its devices' locks
	asked      struct{ hold, stop, terminate bool }
	links      int
	alarm      time.Duration // the next Step that was asked for; 0 = none
	coming     time.Duration // when the check of the node goes on, which takes a Step as well; 0 = it does not
	plain      *agent.Plain
	spoke      bool // it has reported something
	hangs      bool
	ended      bool // its own process has
	stepping   bool
	after      []func() // what happens once the report of a Step is out
}

func (m *Machine) newShim(jg record.JobGen, order Order) *Shim {
	s := &Shim{JobGen: jg, Order: order, machine: m}
	s.state = run.New(order.order(m.Node), run.Process{}, "")
	s.facts.Written, s.facts.Looked = true, run.LookAll
	s.facts.Inside.Empty = true
	if !order.Prepared {
		s.bind()
	}
	m.shims = append(m.shims, s)
	return s
}

// Report is what the shim knows.
func (s *Shim) Report() *run.Report { return &s.state.Report }

// Running reports whether workers live.
func (s *Shim) Running() bool {
	return slices.ContainsFunc(s.facts.Workers, func(w run.Worker) bool { return w.PID != 0 && w.Exit == nil })
}

// Killed reports whether the shim has begun to kill the workers, or something else has.
func (s *Shim) Killed() bool { return s.state.Killing() || s.dying }

// KillPending reports whether SIGKILL is pending for workers that it does not end: they
// run no code of their own again.
func (s *Shim) KillPending() bool { return s.unkillable && s.holds() }

// Parked reports whether processes live that run the script up to where they wait for a plan, or for the devices
// that it gives them.
func (s *Shim) Parked() bool { return s.parked }

// Unbound reports whether the shim waits for its plan.
func (s *Shim) Unbound() bool { return s.state.Unbound() && !s.state.Killing() }

// holds reports whether any process of the script lives.
func (s *Shim) holds() bool { return s.Running() || s.Parked() }

// Machine is where the shim is.
func (s *Shim) Machine() *Machine { return s.machine }

// Halt is the leader's request to stop, as far as the shim has heard of it.
func (s *Shim) Halt() *record.Halt { return s.facts.Wish.Halt }

// wished takes in what the agent wants.
func (s *Shim) wished(w run.Wish) {
	if s.ended {
		return
	}
	s.facts.Wish = w
	s.step()
}

// step has the run decide, and does all that is due. A shim that hangs does nothing.
func (s *Shim) step() {
	if s.hangs || s.ended || s.stepping {
		return
	}
	s.stepping = true
	var due run.Due
	for acts := true; acts && !s.ended; {
		s.facts.Now, s.facts.Clock = s.machine.now(), s.machine.clock()
		s.facts.Inside.Empty = !s.holds()
		s.facts.Inside.Left, s.facts.Inside.Names, s.facts.Inside.KillPending = nil, nil, s.unkillable
		if s.holds() {
			s.facts.Inside.Left = []run.Process{{PID: s.PID}}
			s.facts.Inside.Names = []string{fmt.Sprintf("pid %d (worker)", s.PID)}
		}
		before := s.state.Report
		due = s.state.Step(&s.facts)
		s.noteFaults(&before)
		for _, a := range due.Actions {
			s.carryOut(a)
		}
		if due.Tell {
			s.tell()
		}
		acts = len(due.Actions) > 0
	}
	s.stepping = false
	if len(s.after) > 0 {
		after := s.after
		s.after = nil
		for _, do := range after {
			do()
		}
		s.step()
		return
	}
	s.wake(due.At)
}

// wake sees to a Step at that time of CLOCK_BOOTTIME, which is Outside's.
func (s *Shim) wake(at int64) {
	next := time.Duration(at)
	sooner := func(t time.Duration) bool { return t != 0 && t <= next }
	if at == 0 || s.ended || sooner(s.alarm) || sooner(s.coming) {
		return
	}
	s.alarm = next
	s.machine.Outside.At(max(0, next-s.machine.Outside.Now()), func() {
		if s.alarm == next {
			s.alarm = 0
		}
		s.step()
	})
}

// noteFaults tells the faults' owner what a Step has found out.
func (s *Shim) noteFaults(before *run.Report) {
	m, now := s.machine, &s.state.Report
	if f := now.Failed; f != nil && before.Failed == nil && f.Kind == record.NodeFenced && m.Faults.Fenced != nil {
		m.Faults.Fenced(s)
	}
	if len(now.Unkillable) > 0 && len(before.Unkillable) == 0 {
		s.after = append(s.after, m.writeInventory)
	}
}

// carryOut does one thing, or has it take its time.
func (s *Shim) carryOut(a run.Action) {
	m := s.machine
	switch a := a.(type) {
	case run.ReadPlan:
		s.facts.Plan = s.readPlan()
	case run.Bind:
		s.Order = m.dirs[s.JobGen].order
		s.bind()
	case run.CheckNode:
		s.facts.Node = run.NodeCheck{}
		s.check()
	case run.Execute:
		s.execute()
	case run.Park:
		s.park(a.Processes)
	case run.GiveUp:
		s.facts.Ahead.Parked, s.facts.Ahead.Living = nil, 0
	case run.KillAhead, run.Kill:
		s.sigkill()
	case run.Hold:
		if !s.asked.hold { // the script answers for all ranks here
			s.asked.hold = true
			s.after = append(s.after, func() { m.Script.Hold(s) })
		}
	case run.StopAfter:
		s.facts.Workers[a.Local].StoppedAt = m.clock()
		if !s.asked.stop {
			s.asked.stop = true
			s.after = append(s.after, func() { m.Script.Stop(s, a.Step) })
		}
	case run.Terminate:
		if !s.asked.terminate {
			s.asked.terminate = true
			s.after = append(s.after, func() { m.Script.Terminate(s) })
		}
	case run.ReturnLocks:
		s.locked, s.facts.LocksFree = false, true
	case run.RemoveGroups:
		s.facts.GroupsGone = true
	case run.Leave:
		s.end()
	case run.Welcome, run.Abort, run.StopLogs:
	}
}

// readPlan is what the shim finds in its directory.
func (s *Shim) readPlan() run.Plan {
	dir := s.machine.dirs[s.JobGen]
	if dir == nil || dir.shim != s || !dir.order.Planned {
		return run.Plan{Task: run.Task{Done: true, Failed: &record.Failed{Kind: record.NodeRefused, Reason: "start the prepared run: there is no order"}}}
	}
	return run.Plan{Task: run.Task{Done: true}, Order: dir.order.order(s.machine.Node)}
}

func (s *Shim) bind() {
	s.facts.Workers = make([]run.Worker, len(s.Member.Ranks()))
	s.facts.Binding.Done = true
}

// check looks at the node for a while, and waits for the devices' locks.
func (s *Shim) check() {
	m := s.machine
	done := func(failed *record.Failed) {
		s.facts.Node = run.NodeCheck{Task: run.Task{Done: true, Failed: failed}}
		s.step()
	}
	var lock func()
	lock = func() {
		switch {
		case s.ended || s.state.Killing(): // it takes none any more
		case slices.ContainsFunc(m.shims, s.contends):
			s.facts.Node.Waiting = "waiting for a device's lock"
			s.later(lockEvery, lock)
		default:
			s.locked = true
			done(nil)
		}
	}
	look := func() {
		if refuses := m.Faults.Refuses; refuses != nil && !s.ended && !s.state.Killing() {
			if failed := refuses(s.JobGen); failed != nil {
				done(failed)
				return
			}
		}
		lock()
	}
	if takes := m.takes(agent.StartShim{}); takes > 0 {
		s.later(takes, look)
	} else {
		look()
	}
}

// later goes on with the check of the node after a while, and takes a Step then.
func (s *Shim) later(after time.Duration, do func()) {
	s.coming = s.machine.Outside.Now() + after
	s.machine.Outside.At(after, func() {
		s.coming = 0
		do()
		s.step()
	})
}

// contends reports whether another has the lock of a device of this shim's.
func (s *Shim) contends(o *Shim) bool {
	return o != s && o.locked && slices.ContainsFunc(o.Member.Devices, func(d cluster.DeviceID) bool { return slices.Contains(s.Member.Devices, d) })
}

// execute releases or starts the workers.
func (s *Shim) execute() {
	m := s.machine
	s.executed, s.Execed = true, m.Outside.Now()
	s.facts.Execution = run.Execution{Task: run.Task{Done: true}, Warm: len(s.facts.Ahead.Parked) > 0}
	s.parked, s.facts.Ahead = false, run.Ahead{}
	for i := range s.facts.Workers {
		m.nextPID++
		s.facts.Workers[i] = run.Worker{PID: m.nextPID, ExecutedAt: m.clock(), Deaf: s.Deaf, Silent: true}
	}
	s.PID = m.nextPID
	s.after = append(s.after, func() {
		if m.Faults.Executed != nil {
			m.Faults.Executed(s)
		}
		m.Script.Run(s)
	})
}

// end is the end of the shim's own process.
func (s *Shim) end() {
	if s.ended {
		return
	}
	s.ended = true
	if !s.holds() {
		s.machine.reap(s)
	}
	if r := s.machine.runs[s.JobGen]; s.machine.agent && r != nil && r.dir != nil && r.dir.shim == s && r.state == agent.Live {
		s.machine.shimEnded(r)
	}
}

package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// stopGrace is what workers get between SIGTERM and SIGKILL when there is nothing to save.
	stopGrace = 2 * time.Second
	// unkillableAfter is how long a process may survive SIGKILL before it is reported.
	unkillableAfter = 10 * time.Second
	// prepareBound is how long a shim waits for the locks of its devices, and looks for them each lockEvery.
	prepareBound = 45 * time.Second
	lockEvery    = 100 * time.Millisecond
	// rememberedSteps is how many steps' saves an agent remembers of a run.
	rememberedSteps = 128
)

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
}

// Shim is the process that hosts the workers of one generation here. Its exported
// methods are for the script and for faults.
type Shim struct {
	record.JobGen
	Order
	Report run.Report
	PID    int // of the first worker
	// Execed is when the workers were executed.
	Execed time.Duration
	// Script is the script's own.
	Script any

	machine    *Machine
	wish       run.Wish
	phase      phase
	killed     string
	told       bool // to stop
	stopping   bool // after a step
	unkillable bool
	signalled  time.Time
	haltEnds   time.Duration // 0 = no halt was seen
	lockBy     time.Duration // 0 = no lock is waited for
	parks      int           // how many processes it is to have wait for a plan
	parked     bool          // some do, or are on the way there
	alarm      time.Duration // the next look at the deadline; 0 = none is due
	plain      *agent.Plain
	spoke      bool // it has reported something
	hangs      bool
	ended      bool // its own process has
}

// phase is how far a shim has come with its workers.
type phase uint8

const (
	unbound phase = iota // a prepared run waits for its plan
	preparing
	ready // only a deadline is missing
	running
	over // none runs, and none will
)

// Running reports whether workers live.
func (s *Shim) Running() bool { return s.phase == running }

// Killed reports whether SIGKILL was sent to the workers.
func (s *Shim) Killed() bool { return s.killed != "" }

// KillPending reports whether SIGKILL is pending for workers that it does not end: they
// run no code of their own again.
func (s *Shim) KillPending() bool { return s.unkillable && s.holds() }

// Parked reports whether processes live that run the script up to where they wait for a plan, or for the devices
// that it gives them.
func (s *Shim) Parked() bool { return s.parked && s.phase != over }

// holds reports whether any process of the script lives.
func (s *Shim) holds() bool { return s.Running() || s.Parked() }

// Machine is where the shim is.
func (s *Shim) Machine() *Machine { return s.machine }

// Halt is the leader's request to stop, as far as the shim has heard of it.
func (s *Shim) Halt() *record.Halt { return s.wish.Halt }

// prepare looks at the node for a while, and then executes the workers.
func (s *Shim) prepare(takes time.Duration) {
	s.phase = preparing
	if s.wish.Deadline == 0 {
		s.wish.Deadline = s.Order.Deadline
	}
	do := func() {
		if s.ended || s.phase != preparing {
			return
		}
		if refuses := s.machine.Faults.Refuses; refuses != nil {
			if failed := refuses(s.JobGen); failed != nil {
				s.fail(*failed)
				return
			}
		}
		s.phase = ready
		s.step()
	}
	if takes > 0 {
		s.machine.Outside.At(takes, do)
		return
	}
	do()
}

// wished takes in what the agent wants.
func (s *Shim) wished(w run.Wish) {
	if s.ended {
		return
	}
	if w.Deadline == 0 {
		w.Deadline = s.wish.Deadline
	}
	if w.Halt == nil {
		w.Halt = s.wish.Halt
	}
	if w.Kill == "" {
		w.Kill = s.wish.Kill
	}
	w.Start, w.Workers = w.Start || s.wish.Start, max(w.Workers, s.wish.Workers)
	s.wish = w
	s.step()
}

// step does all that is due. A shim that hangs does nothing.
func (s *Shim) step() {
	if s.hangs || s.ended {
		return
	}
	if s.Report.Deadline != s.wish.Deadline {
		s.Report.Deadline = s.wish.Deadline
		s.tell()
	}
	if s.wish.Kill != "" {
		s.kill(s.wish.Kill)
	}
	s.keepDeadline()
	s.stepPark()
	s.stepBind()
	s.followHalt()
	if s.phase == ready && s.wish.Deadline != 0 {
		s.lock()
	}
	if s.wish.Retire && s.Report.Stopped != nil {
		s.end()
	}
}

// keepDeadline kills at the fencing deadline, and looks again when the one in force comes.
func (s *Shim) keepDeadline() {
	now := s.machine.now()
	switch {
	case s.phase == over || s.wish.Deadline == 0 || s.wish.Deadline == fence.Never:
	case fence.Expired(now, s.wish.Deadline):
		if s.machine.Faults.Fenced != nil && s.killed == "" {
			s.machine.Faults.Fenced(s)
		}
		s.fail(record.Failed{
			Kind: record.NodeFenced, Rank: -1, At: s.machine.clock(),
			Reason: "it lost touch with the cluster, and its workers were killed at the fencing deadline",
		})
	case s.alarm == 0:
		s.alarm = time.Duration(s.wish.Deadline)
		s.machine.Outside.At(s.alarm-s.machine.Outside.Now(), func() {
			s.alarm = 0
			s.step()
		})
	}
}

// followHalt carries out the leader's halt.
func (s *Shim) followHalt() {
	h := s.wish.Halt
	if h == nil || s.killed != "" || s.phase == over {
		return
	}
	m := s.machine
	if s.haltEnds == 0 {
		span := haltSpan(h)
		s.haltEnds = m.Outside.Now() + span
		m.Outside.At(span, s.step)
	}
	switch {
	case !h.Save:
		s.kill("halt: " + h.Why.String())
	case m.Outside.Now() >= s.haltEnds:
		s.kill(fmt.Sprintf("the halt's time of %s is over: %s", haltSpan(h), h.Why))
	case s.phase != running:
		s.Held(false, -1, true)
		s.kill("halted before its workers were executed: " + h.Why.String())
	default:
		s.askRanks(h)
	}
}

func haltSpan(h *record.Halt) time.Duration {
	if h.At.IsZero() || h.Deadline.IsZero() {
		return time.Duration(cluster.DefaultHaltTimeout)
	}
	return max(0, h.Deadline.Sub(h.At))
}

func (s *Shim) askRanks(h *record.Halt) {
	m := s.machine
	if s.Report.Held == nil {
		m.Script.Hold(s)
	}
	if s.stopping || h.StopAfter == nil && !h.Terminate {
		return
	}
	s.stopping, s.told, s.signalled = true, true, m.clock()
	switch {
	case h.StopAfter == nil:
		m.Script.Terminate(s)
	case *h.StopAfter < 0:
		m.Script.Terminate(s)
		m.Outside.At(stopGrace, func() { s.kill("halt: still running after SIGTERM, with nothing to save") })
	default:
		m.Script.Stop(s, *h.StopAfter)
	}
}

// lock executes the workers once no others here have their devices.
func (s *Shim) lock() {
	m := s.machine
	if !slices.ContainsFunc(m.shims, s.shares) {
		s.execute()
		return
	}
	if s.lockBy == 0 {
		s.lockBy = m.Outside.Now() + prepareBound
	}
	if m.Outside.Now() >= s.lockBy {
		s.fail(record.Failed{
			Kind: record.Transient, Rank: -1, At: m.clock(), Reason: fmt.Sprintf("no answer within %s: waits for a device's lock", prepareBound),
		})
		return
	}
	m.Outside.At(lockEvery, s.step)
}

// shares reports whether another's workers live on a device of this shim's.
func (s *Shim) shares(o *Shim) bool {
	return o != s && o.Running() && slices.ContainsFunc(o.Member.Devices, func(d cluster.DeviceID) bool { return slices.Contains(s.Member.Devices, d) })
}

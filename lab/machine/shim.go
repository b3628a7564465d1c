package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/fence"
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
}

// Shim is the process that hosts the workers of one generation here. Its exported
// methods are for the script and for faults.
type Shim struct {
	record.JobGen
	Order
	Report agent.Report
	PID    int // of the first worker
	// Execed is when the workers were executed.
	Execed time.Duration
	// Script is the script's own.
	Script any

	machine    *Machine
	wish       agent.Wish
	phase      phase
	killed     string
	told       bool // to stop
	stopping   bool // after a step
	unkillable bool
	signalled  time.Time
	haltEnds   time.Duration // 0 = no halt was seen
	lockBy     time.Duration // 0 = no lock is waited for
	alarm      time.Duration // the next look at the deadline; 0 = none is due
	plain      *agent.Plain
	spoke      bool // it has reported something
	hangs      bool
	ended      bool // its own process has
}

// phase is how far a shim has come with its workers.
type phase uint8

const (
	preparing phase = iota
	ready           // only a deadline is missing
	running
	over // none runs, and none will
)

// Running reports whether workers live.
func (s *Shim) Running() bool { return s.phase == running }

// Killed reports whether SIGKILL was sent to the workers.
func (s *Shim) Killed() bool { return s.killed != "" }

// Doomed reports whether SIGKILL is pending for workers that it does not end: they
// run no code of their own again.
func (s *Shim) Doomed() bool { return s.unkillable && s.phase == running }

// Machine is where the shim is.
func (s *Shim) Machine() *Machine { return s.machine }

// Halt is the leader's request to stop, as far as the shim has heard of it.
func (s *Shim) Halt() *record.Halt { return s.wish.Halt }

// prepare looks at the node for a while, and then executes the workers.
func (s *Shim) prepare(takes time.Duration) {
	s.wish.Deadline = s.Order.Deadline
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
		s.settle()
	}
	if takes > 0 {
		s.machine.Outside.At(takes, do)
		return
	}
	do()
}

// wished takes in what the agent wants.
func (s *Shim) wished(w agent.Wish) {
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
	s.wish = w
	s.settle()
}

// settle does all that is due. A shim that hangs does nothing.
func (s *Shim) settle() {
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
	s.settleDeadline()
	s.settleHalt()
	if s.phase == ready && s.wish.Deadline != 0 {
		s.lock()
	}
	if s.wish.Retire && s.Report.Stopped != nil {
		s.end()
	}
}

// settleDeadline kills at the fencing deadline, and looks again when the one in force comes.
func (s *Shim) settleDeadline() {
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
			s.settle()
		})
	}
}

// settleHalt carries out the leader's halt.
func (s *Shim) settleHalt() {
	h := s.wish.Halt
	if h == nil || s.killed != "" || s.phase == over {
		return
	}
	m := s.machine
	if s.haltEnds == 0 {
		span := haltSpan(h)
		s.haltEnds = m.Outside.Now() + span
		m.Outside.At(span, s.settle)
	}
	switch {
	case !h.Save:
		s.kill("halt: " + h.Why)
	case m.Outside.Now() >= s.haltEnds:
		s.kill(fmt.Sprintf("the halt's time of %s is over: %s", haltSpan(h), h.Why))
	case s.phase != running:
		s.Held(false, -1, true)
		s.kill("halted before its workers were executed: " + h.Why)
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
	m.Outside.At(lockEvery, s.settle)
}

// shares reports whether another's workers live on a device of this shim's.
func (s *Shim) shares(o *Shim) bool {
	return o != s && o.Running() && slices.ContainsFunc(o.Member.Devices, func(d cluster.DeviceID) bool { return slices.Contains(s.Member.Devices, d) })
}

// execute starts the workers.
func (s *Shim) execute() {
	m := s.machine
	s.phase, s.Execed = running, m.Outside.Now()
	s.Report.ExecedAt = m.clock()
	for i, rank := range s.Member.Ranks() {
		m.nextPID++
		s.Report.Workers = append(s.Report.Workers, record.Worker{Rank: rank, Device: s.Member.Devices[i], PID: m.nextPID})
	}
	s.PID = m.nextPID
	if m.Faults.Executed != nil {
		m.Faults.Executed(s)
	}
	s.tell()
	m.Script.Run(s)
}

// Held is the ranks' answer to a halt: the newest step that one of them has begun,
// -1 if none. deaf: one would not notice being asked to stop.
func (s *Shim) Held(sdk bool, begun int64, deaf bool) {
	if s.ended || s.Report.Held != nil {
		return
	}
	s.Report.Held = &record.Held{SDK: sdk, Begun: begun, Deaf: deaf, At: s.machine.clock()}
	s.tell()
}

// Saved is the word of all ranks here that their files of a step are written.
func (s *Shim) Saved(step, samples int64) {
	if s.ended || s.phase != running {
		return
	}
	for _, rank := range s.Member.Ranks() {
		s.Report.Saves = append(s.Report.Saves, agent.Save{Step: step, Rank: rank, Samples: samples, Dir: s.dir(step)})
	}
	if most := rememberedSteps * s.Member.Processes(); len(s.Report.Saves) > most {
		s.Report.Saves = s.Report.Saves[len(s.Report.Saves)-most:]
	}
	s.tell()
}

// Left is what a plain script has left on the disk: the complete checkpoint of a
// step, or, where whole, its directory without steps.
func (s *Shim) Left(step int64, whole bool) {
	s.plain = &agent.Plain{Step: step, Samples: -1, Dir: s.dir(step), Whole: whole}
	s.machine.Wake(s.Job)
}

func (s *Shim) dir(step int64) string {
	return fmt.Sprintf("%s/%s/step-%d", s.Spec.CheckpointDir, s.Job, step)
}

// Progress is the ranks' word on how far they are.
func (s *Shim) Progress(step, samples int64) {
	s.Report.Progress = &record.JobProgress{Generation: s.Generation, Step: step, Samples: samples, At: s.machine.clock()}
	s.tell()
}

// Exit ends all workers here by themselves, with an exit status.
func (s *Shim) Exit(status int) {
	if s.phase != running || s.killed != "" {
		return
	}
	if status != 0 && s.wish.Halt == nil {
		s.failed(record.Failed{
			Kind: record.WorkerFailed, Reason: fmt.Sprintf("exit status %d", status), Rank: s.Member.FirstRank, At: s.machine.clock(),
		})
	}
	s.out(status, 0)
}

// out notes that nothing is left of the workers.
func (s *Shim) out(status, signal int) {
	m := s.machine
	executed := s.phase == running
	s.phase = over
	stopped := &record.Stopped{Finished: executed && status == 0 && signal == 0 && !s.told, SignalledAt: s.signalled, ExitedAt: m.clock()}
	if executed {
		for _, rank := range s.Member.Ranks() {
			stopped.Exits = append(stopped.Exits, record.Exit{Rank: rank, Code: status, Signal: signal})
		}
	}
	s.Report.Unkillable = nil
	if executed && m.Faults.Ended != nil {
		m.Faults.Ended(s)
	}
	if s.ended { // no process is left to report it
		m.reap(s)
		return
	}
	s.Report.Stopped = stopped
	s.tell()
}

func (s *Shim) failed(f record.Failed) {
	if s.Report.Failed == nil {
		s.Report.Failed = &f
		s.tell()
	}
}

// fail reports a failure that is no worker's, and ends all.
func (s *Shim) fail(f record.Failed) {
	if s.Report.Stopped == nil && s.killed == "" {
		s.failed(f)
	}
	s.kill(f.Reason)
}

// kill ends all workers. Once begun it cannot be called off.
func (s *Shim) kill(why string) {
	if s.killed != "" || s.ended {
		return
	}
	s.killed = why
	if s.phase == over {
		return
	}
	if s.phase == running {
		s.told = true
		if s.signalled.IsZero() {
			s.signalled = s.machine.clock()
		}
	}
	s.kill9()
}

// kill9 sends SIGKILL to all workers, and returns how long they take to die.
func (s *Shim) kill9() time.Duration {
	const sigkill = 9
	if s.phase != running {
		if s.phase != over {
			s.out(0, 0)
		}
		return 0
	}
	takes := time.Duration(0)
	if s.machine.Faults.Dies != nil {
		takes = s.machine.Faults.Dies(s)
	}
	do := func() {
		if s.phase == running {
			s.out(0, sigkill)
		}
	}
	switch {
	case takes < 0 || s.unkillable:
		s.survive()
		return unkillableAfter
	case takes > 0:
		s.machine.Outside.At(takes, do)
	default:
		do()
	}
	return takes
}

// survive is SIGKILL without effect, of which the shim tells after a while.
func (s *Shim) survive() {
	if s.unkillable {
		return
	}
	s.unkillable = true
	s.machine.Outside.At(unkillableAfter, func() {
		if s.phase != running || s.ended {
			return
		}
		s.Report.Unkillable = []int{s.PID}
		s.failed(record.Failed{
			Kind: record.NodeRefused, Rank: -1, At: s.machine.clock(), Unkillable: s.Report.Unkillable,
			Reason: fmt.Sprintf("UNKILLABLE pid %d survives SIGKILL since %s: its device stays locked until the node is rebooted", s.PID, unkillableAfter),
		})
		s.tell()
		s.machine.writeInventory()
	})
}

// Release lets workers die that survived SIGKILL.
func (s *Shim) Release() {
	if s.unkillable && s.phase == running {
		s.out(0, 9)
	}
	s.unkillable = false
	s.machine.writeInventory()
}

// tell has the agent hear the report, and keeps it in the run directory.
func (s *Shim) tell() {
	s.spoke = true
	m := s.machine
	if dir := m.dirs[s.JobGen]; dir != nil && dir.shim == s {
		report := s.Report
		dir.report = &report
	}
	if r := m.runs[s.JobGen]; m.agent && r != nil && r.dir != nil && r.dir.shim == s && r.state == agent.Live {
		m.reported(r, s.Report)
	}
}

// end is the end of the shim's own process.
func (s *Shim) end() {
	if s.ended {
		return
	}
	s.ended = true
	if s.phase != running {
		s.machine.reap(s)
	}
	if r := s.machine.runs[s.JobGen]; s.machine.agent && r != nil && r.dir != nil && r.dir.shim == s && r.state == agent.Live {
		s.machine.bury(r)
	}
}

// crash ends the shim's own process, and its workers live on.
func (s *Shim) crash() { s.end() }

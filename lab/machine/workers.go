package machine

import (
	"fmt"
	"path"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

// execute starts the workers.
func (s *Shim) execute() {
	m := s.machine
	s.phase, s.parked, s.Execed = running, false, m.Outside.Now()
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
		s.Report.Saves = append(s.Report.Saves, run.Save{Step: step, Rank: rank, Samples: samples, Dir: s.dir(step)})
	}
	if most := rememberedSteps * s.Member.Processes(); len(s.Report.Saves) > most {
		s.Report.Saves = s.Report.Saves[len(s.Report.Saves)-most:]
	}
	s.tell()
}

// Left is what a plain script has left on the disk: the complete checkpoint of a
// step and the samples that it states, -1 if none; or, where whole, its directory
// without steps.
func (s *Shim) Left(step, samples int64, whole bool) {
	s.plain = &agent.Plain{Step: step, Samples: samples, Dir: s.dir(step), Whole: whole}
	s.machine.Wake(s.Job)
}

func (s *Shim) dir(step int64) string {
	return path.Join(s.Spec.CheckpointDir, string(s.Job), layout.Step(step))
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
		s.failed(s.failure(status))
	}
	s.out(status, 0)
}

// Starve is the end of all workers, as one of them has run out of memory.
func (s *Shim) Starve() {
	if s.phase != running || s.killed != "" {
		return
	}
	if s.wish.Halt == nil {
		f := s.failure(1)
		f.OutOfMemory = true
		s.failed(f)
	}
	s.out(1, 0)
}

// Fail is the end of one worker by itself, with an exit status that is not 0. The
// others go on until they are told to end.
func (s *Shim) Fail(status int) {
	if s.phase == running && s.killed == "" && s.wish.Halt == nil {
		s.failed(s.failure(status))
	}
}

func (s *Shim) failure(status int) record.Failed {
	return record.Failed{
		Kind: record.WorkerFailed, Reason: fmt.Sprintf("exit status %d", status), Rank: s.Member.FirstRank, At: s.machine.clock(),
	}
}

// out notes that nothing is left of the workers.
func (s *Shim) out(status, signal int) {
	m := s.machine
	executed := s.phase == running
	s.phase, s.parked = over, false
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
	s.sigkill()
}

// sigkill is the signal's number.
const sigkill = 9

// sigkill sends SIGKILL to all workers, and returns how long they take to die.
func (s *Shim) sigkill() time.Duration {
	if !s.holds() {
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
		if s.holds() {
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
		if !s.holds() || s.ended {
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
	if s.unkillable && s.holds() {
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
	if !s.holds() {
		s.machine.reap(s)
	}
	if r := s.machine.runs[s.JobGen]; s.machine.agent && r != nil && r.dir != nil && r.dir.shim == s && r.state == agent.Live {
		s.machine.shimEnded(r)
	}
}

// crash ends the shim's own process, and its workers live on.
func (s *Shim) crash() { s.end() }

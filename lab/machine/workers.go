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

// Connect opens the connections of the ranks' SDKs.
func (s *Shim) Connect() {
	if s.ended || !s.Running() {
		return
	}
	s.asked.hold, s.asked.stop = false, false
	for i := range s.facts.Workers {
		s.links++
		s.facts.Workers[i].Link, s.facts.Workers[i].Begun = s.links, nil
	}
	s.step()
}

// Holds is the ranks' answer to Script.Hold: the newest step that one of them has begun, -1 if none.
func (s *Shim) Holds(begun int64) {
	for i := range s.facts.Workers {
		if s.facts.Workers[i].Link != 0 {
			s.facts.Workers[i].Begun = &begun
		}
	}
	s.step()
}

// Saved is the word of all ranks here that their files of a step are written.
func (s *Shim) Saved(step, samples int64) {
	if s.ended || !s.Running() {
		return
	}
	for _, rank := range s.Member.Ranks() {
		s.state.Saved(run.Save{Step: step, Rank: rank, Samples: samples, Dir: s.dir(step)})
	}
	s.step()
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
	s.state.Progressed(run.Finished{Step: step, Samples: samples}, s.machine.clock())
	s.step()
}

// Exit ends all workers here by themselves, with an exit status.
func (s *Shim) Exit(status int) { s.exit(status, false) }

// Starve is the end of all workers, as one of them has run out of memory.
func (s *Shim) Starve() { s.exit(1, true) }

func (s *Shim) exit(status int, starved bool) {
	if !s.Running() || s.Killed() {
		return
	}
	for i := range s.facts.Workers {
		s.gone(i, record.Exit{Code: status}, fmt.Sprintf("exit status %d", status))
		s.facts.Workers[i].OutOfMemory = starved
	}
	s.out()
}

// Fail is the end of one worker by itself, with an exit status that is not 0.
func (s *Shim) Fail(status int) {
	if s.Running() && !s.Killed() {
		s.gone(0, record.Exit{Code: status}, fmt.Sprintf("exit status %d", status))
		if s.step(); !s.Running() && !s.dying {
			s.out()
		}
	}
}

// gone notes the end of a worker.
func (s *Shim) gone(local int, exit record.Exit, how string) {
	if w := &s.facts.Workers[local]; w.PID != 0 && w.Exit == nil {
		exit.Rank = s.Member.FirstRank + local
		w.Exit, w.ExitedAt, w.How, w.Link = &exit, s.machine.clock(), how, 0
	}
}

// out notes that nothing is left of the workers.
func (s *Shim) out() {
	s.parked = false
	s.step()
	if s.executed && s.machine.Faults.Ended != nil {
		s.machine.Faults.Ended(s)
	}
	if s.ended { // no process is left to report it
		s.machine.reap(s)
	}
}

// sigkill sends SIGKILL to all that lives, and returns how long it takes to die.
func (s *Shim) sigkill() time.Duration {
	takes := time.Duration(0)
	switch {
	case !s.holds() || s.dying && !s.unkillable:
		return 0
	case s.unkillable:
		return run.UnkillableAfter
	}
	if s.machine.Faults.Dies != nil {
		takes = s.machine.Faults.Dies(s)
	}
	s.dying = true
	do := func() {
		if s.dying && !s.unkillable {
			s.dead()
		}
	}
	switch {
	case takes < 0:
		s.unkillable = true
		return run.UnkillableAfter
	case takes > 0:
		s.machine.Outside.At(takes, do)
	case s.stepping: // the run finds out in the Step that follows
		s.after = append(s.after, do)
	default:
		do()
	}
	return takes
}

// dead is what SIGKILL does in the end.
func (s *Shim) dead() {
	s.dying = false
	if !s.holds() {
		return
	}
	if a := &s.facts.Ahead; a.Working {
		a.Working, a.Failed = false, "it has ended before it was parked"
	}
	for i := range s.facts.Workers {
		s.gone(i, record.Exit{Code: -1, Signal: 9}, "signal: killed")
	}
	s.out()
}

// Release lets workers die that survived SIGKILL.
func (s *Shim) Release() {
	if s.unkillable {
		s.unkillable = false
		s.dead()
	}
	s.machine.writeInventory()
}

// tell has the agent hear the report, and keeps it in the run directory.
func (s *Shim) tell() {
	s.spoke = true
	m, report := s.machine, s.state.Report
	if dir := m.dirs[s.JobGen]; dir != nil && dir.shim == s {
		kept := report
		dir.report = &kept
	}
	if r := m.runs[s.JobGen]; m.agent && r != nil && r.dir != nil && r.dir.shim == s && r.state == agent.Live {
		m.reported(r, report)
	}
}

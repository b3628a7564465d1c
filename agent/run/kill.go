package run

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/record"
)

const (
	// UnkillableAfter is how long a process may survive SIGKILL before it is
	// reported; drivers that reset a device take seconds.
	UnkillableAfter = 10 * time.Second

	// SIGKILL is sent again after pauses that double from the first to the last: what forks at that moment may be missed.
	firstKillPause = int64(time.Millisecond)
	lastKillPause  = int64(time.Second)
)

// killed is how the workers are being killed.
type killed struct {
	why   string // empty = they are not
	kills kills
	since int64 // as of when what survives is looked at
	named int64 // when it is looked at again
	gone  bool  // nothing is left
}

// kills are repeated. The zero value begins at once.
type kills struct{ next, pause int64 }

// step kills if that is due.
func (k *kills) step(due *agenda, f *Facts, a Action) {
	if f.Now >= k.next {
		due.do(a)
		k.pause = min(max(2*k.pause, firstKillPause), lastKillPause)
		k.next = f.Now + k.pause
	}
	due.at(k.next)
}

// stepFence kills at the fencing deadline, and when an agent or the shim's own end asks for it. It depends on no other
// process.
func (s *State) stepFence(f *Facts) {
	if s.wish.Kill != "" {
		s.kill(f, s.wish.Kill)
	}
	if f.Told != "" {
		s.kill(f, f.Told)
	}
	if f.Refused != nil && !s.Killing() {
		s.fail(f, *f.Refused)
	}
	switch {
	case !s.order.Strict || s.Over(f):
	case fence.Expired(f.Now, s.wish.Deadline):
		s.fail(f, record.Failed{
			Kind: record.NodeFenced, Reason: "it lost touch with the cluster, and its workers were killed at the fencing deadline",
		})
	case s.wish.Deadline != 0 && s.wish.Deadline != fence.Never:
		s.at(s.wish.Deadline)
	}
}

// fail reports a failure that is no worker's, and kills. The first one is reported, and none that a kill has caused.
func (s *State) fail(f *Facts, failed record.Failed) {
	failed.Reason = record.Reason(failed.Reason) // it may quote paths and a whole PATH
	failed.Rank, failed.At = -1, f.Clock
	if s.Report.Failed == nil && s.Report.Stopped == nil && !s.Killing() {
		s.Report.Failed, s.keep = &failed, true
	}
	s.kill(f, failed.Reason)
}

// kill has all workers die. Once begun it cannot be called off.
func (s *State) kill(f *Facts, why string) {
	if s.Killing() {
		return
	}
	s.killed.why = cmp.Or(why, "no reason was given")
	s.Report.Waiting = ""
	s.do(Abort{Why: why})
	if s.Over(f) {
		return
	}
	for i := range s.ranks {
		if f.worker(i).runs() {
			s.ranks[i].told = true
			if s.signalledAt.IsZero() {
				s.signalledAt = f.Clock
			}
		}
	}
}

// stepKill sends SIGKILL into the containment, again and again until it is empty. It does so while the node is checked as
// well, since processes may be parked; what looks at a file system that hangs is not inside.
func (s *State) stepKill(f *Facts) {
	if !s.Killing() || s.killed.gone {
		return
	}
	s.killed.kills.step(&s.agenda, f, Kill{})
}

// stepUnkillable reports what survives SIGKILL. The kills go on.
func (s *State) stepUnkillable(f *Facts) {
	if s.killed.since == 0 {
		s.killed.since = f.Now
	}
	if due := s.killed.since + int64(UnkillableAfter); f.Now < due {
		s.at(due)
		return
	}
	// It is looked at once a second, perhaps for days: the shell reads all of /proc for that.
	if f.Looked&LookNames == 0 {
		if f.Now >= s.killed.named {
			s.due.Look |= LookNames
		} else {
			s.at(s.killed.named)
		}
		return
	}
	s.killed.named = f.Now + int64(time.Second)
	s.at(s.killed.named)
	if len(f.Inside.Left) == 0 {
		return
	}
	pids := make([]int, len(f.Inside.Left))
	for i, p := range f.Inside.Left {
		pids[i] = p.PID
	}
	if !slices.Equal(pids, s.Report.Unkillable) {
		s.Report.Unkillable, s.Report.KillPending, s.keep = pids, false, true
		if s.Report.Failed == nil {
			s.Report.Failed = &record.Failed{
				Kind: record.NodeRefused, Rank: -1, At: f.Clock, Unkillable: pids,
				Reason: fmt.Sprintf("UNKILLABLE pid %d: %s survives SIGKILL since %s: its device stays locked until the node is rebooted",
					pids[0], f.Inside.Names[0], UnkillableAfter),
			}
		}
	}
	// None of them ever runs code of its own again, so that the job need not wait for them. That stays so.
	if f.Inside.KillPending && !s.Report.KillPending {
		s.Report.KillPending, s.keep = true, true
	}
}

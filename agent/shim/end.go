package shim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
)

const (
	// leftoverGrace is what processes get that the workers have left behind:
	// helpers that notice by themselves that their parent is gone.
	leftoverGrace = time.Second
	// leftoversNamed is how many of them are named; a job may fork without end.
	leftoversNamed = 8
	// UnkillableAfter is how long a process may survive SIGKILL before it is
	// reported; drivers that reset a device take seconds.
	UnkillableAfter = 10 * time.Second
	// tailWait is how long a failure's report waits for the last lines of the log.
	tailWait = 250 * time.Millisecond
	// flushWait is how long the end waits for logs whose pipe stays open although
	// nobody is left who should have it.
	flushWait = time.Second

	// Polls for things that no signal announces begin short and double.
	firstPause = int64(time.Millisecond)
	lastPause  = int64(100 * time.Millisecond)
)

// reap collects what has ended. While workers are being executed it takes only
// those it knows: another one's exit must not be lost before its birth is heard of.
func (m *machine) reap() {
	if m.phase != starting {
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				return
			}
			if i := slices.IndexFunc(m.workers, func(w *worker) bool { return w.PID == pid && w.runs() }); i >= 0 {
				m.exited(m.workers[i], status)
			}
		}
	}
	for _, w := range m.workers {
		if !w.runs() {
			continue
		}
		var status unix.WaitStatus
		if pid, err := unix.Wait4(w.PID, &status, unix.WNOHANG, nil); err == nil && pid == w.PID {
			m.exited(w, status)
		}
	}
}

func (m *machine) exited(w *worker, status unix.WaitStatus) {
	w.exit = &record.Exit{Rank: w.Rank, Code: status.ExitStatus()}
	if status.Signaled() {
		w.exit.Signal = int(status.Signal())
	}
	m.exitedAt = time.Now()
	m.log.Info().Int("rank", w.Rank).Int("code", w.exit.Code).Int("signal", w.exit.Signal).Bool("told", w.told).Msg("worker ended")
	limit, starved := m.cage.starved(slices.Index(m.workers, w))
	// In a halt ranks stumble over each other's exits; only a disk that takes no save
	// and too little memory are news, and cost the save.
	if w.exit.Code == 0 || m.killed != "" || m.wish.Halt != nil && w.unsaved == "" && !starved {
		return
	}
	reason := describeExit(status)
	if starved {
		reason = describeStarved(status, limit)
	}
	m.failing = &record.Failed{Kind: record.WorkerFailed, Reason: reason, Rank: w.Rank, At: m.exitedAt}
	m.failingRank = w
	// Its peers often fail first, in the collective that it no longer comes to.
	if i := slices.IndexFunc(m.workers, func(w *worker) bool { return w.unsaved != "" }); i >= 0 {
		m.failingRank = m.workers[i]
		m.failing.Kind, m.failing.Rank = m.failingRank.unsavedFor, m.failingRank.Rank
		remedy := "make room for"
		if m.failing.Kind == record.Transient {
			remedy = "look at the file system of"
		}
		m.failing.Reason = record.Reason(fmt.Sprintf("%s: %s $BELLOWS_CHECKPOINT_DIR, %s (%s)", m.failingRank.unsaved, remedy, m.order.Checkpoint, reason))
	}
	m.failingBy = Boottime() + int64(tailWait)
	if m.wish.Halt != nil {
		return
	}
	m.kill(fmt.Sprintf("rank %d failed: %s", w.Rank, reason))
}

func describeExit(status unix.WaitStatus) string {
	switch {
	case !status.Signaled():
		return fmt.Sprintf("exit status %d", status.ExitStatus())
	case status.Signal() == unix.SIGKILL:
		return "signal: killed, by the kernel for want of memory or by somebody's hand"
	case status.CoreDump():
		return "signal: " + status.Signal().String() + " (core dumped)"
	}
	return "signal: " + status.Signal().String()
}

// describeStarved says how a worker ended that has reached its limit of memory. In
// a cgroup v1 the kernel may have killed only one of its processes.
func describeStarved(status unix.WaitStatus, limit uint64) string {
	text := fmt.Sprintf("%.4g GiB", float64(limit)/(1<<30))
	if limit < 1<<30 {
		text = fmt.Sprintf("%.4g MiB", float64(limit)/(1<<20))
	}
	out := "killed: out of its memory limit of " + text
	if status.Signaled() && status.Signal() == unix.SIGKILL {
		return out
	}
	return fmt.Sprintf("%s, after one of its processes was %s", describeExit(status), out)
}

// settleFailure reports a worker's failure once its last words are read.
func (m *machine) settleFailure(now int64) {
	if m.failing == nil {
		return
	}
	log := m.failingRank.log
	select {
	case <-log.done:
	default:
		if now < m.failingBy {
			m.alarm.at(min(m.failingBy, now+5*firstPause))
			return
		}
	}
	m.failing.LogTail = log.lastLines()
	if m.report.Failed == nil {
		m.report.Failed, m.dirty = m.failing, true
	}
	m.failing = nil
}

// fail reports a failure that is no worker's, and ends all.
func (m *machine) fail(kind record.FailureKind, reason string) {
	reason = record.Reason(reason) // it may quote paths and a whole PATH
	if m.report.Failed == nil && m.report.Stopped == nil && m.killed == "" {
		m.report.Failed, m.dirty = &record.Failed{Kind: kind, Reason: reason, Rank: -1, At: time.Now()}, true
	}
	m.kill(reason)
}

// kill ends all workers now. Once begun it cannot be called off.
func (m *machine) kill(why string) {
	if m.killed != "" {
		return
	}
	m.killed = why
	m.cancel()
	m.report.Waiting = ""
	if m.over() {
		return
	}
	m.log.Warn().Str("why", why).Msg("killing the workers")
	for _, w := range m.workers {
		if w.runs() {
			w.told = true
			if m.signalledAt.IsZero() {
				m.signalledAt = time.Now()
			}
		}
	}
}

// settleKill sends SIGKILL into the cage, again and again until it is empty.
func (m *machine) settleKill(now int64) {
	if m.killed == "" || m.emptySince != 0 || m.phase == preparing {
		return
	}
	if now < m.nextKill {
		m.alarm.at(m.nextKill)
		return
	}
	if err := m.cage.kill(); err != nil {
		m.log.Error().Err(err).Msg("kill the workers")
	}
	m.killPause = min(max(2*m.killPause, firstPause), int64(time.Second))
	m.nextKill = now + m.killPause
	m.alarm.at(m.nextKill)
}

// settleEnd goes from the last worker's exit to Stopped, and on to the shim's own end.
func (m *machine) settleEnd(now int64) {
	if m.report.Stopped != nil {
		m.settleRetire(now)
		return
	}
	// Preparations that hang are left to themselves: what they have of a process is
	// no worker's, and they take no lock any more.
	given := m.phase == preparing && m.killed != "" && !m.locking
	if !m.over() && !given {
		if m.killed != "" {
			m.settleUnkillable(now)
		}
		return
	}
	if m.outSince == 0 {
		m.outSince = now
		m.reap()
	}
	if m.emptySince == 0 && !m.emptied(now) {
		return
	}
	m.settleStopped(now)
}

// emptied looks whether anything is left of what the workers have started.
func (m *machine) emptied(now int64) bool {
	empty, err := m.cage.empty()
	if err != nil {
		m.log.Error().Err(err).Msg("look for what is left")
	}
	if empty {
		m.emptySince, m.emptyPause = now, 0
		m.report.Unkillable, m.report.Doomed = nil, false
		return true
	}
	m.reap()
	if m.killed == "" && now >= m.outSince+int64(leftoverGrace) {
		m.nameLeftovers()
	}
	if m.killed != "" {
		m.settleUnkillable(now)
	}
	m.pause(now)
	return false
}

func (m *machine) nameLeftovers() {
	left, err := m.cage.left()
	if err != nil {
		m.log.Error().Err(err).Msg("name what is left")
	}
	for i, s := range left {
		if i == leftoversNamed {
			m.report.Leftover = append(m.report.Leftover, fmt.Sprintf("and %d more", len(left)-i))
			break
		}
		m.report.Leftover = append(m.report.Leftover, s.String())
	}
	m.dirty = true
	m.kill(fmt.Sprintf("left behind by its workers: %v", m.report.Leftover))
}

func (m *machine) pause(now int64) {
	m.emptyPause = min(max(2*m.emptyPause, firstPause), lastPause)
	m.alarm.at(now + m.emptyPause)
}

// settleUnkillable reports what does not die. It goes on trying.
func (m *machine) settleUnkillable(now int64) {
	if m.killedAt == 0 {
		m.killedAt = now
	}
	if due := m.killedAt + int64(UnkillableAfter); now < due {
		m.alarm.at(due)
		return
	}
	left, err := m.cage.left()
	if err != nil || len(left) == 0 {
		return
	}
	pids := make([]int, len(left))
	for i, s := range left {
		pids[i] = s.pid
	}
	known := slices.Equal(pids, m.report.Unkillable)
	if known && m.report.Doomed {
		return
	}
	if !known {
		m.report.Doomed = false
	}
	if doomed(left, m.cage.left) {
		m.report.Doomed, m.dirty = true, true
	}
	if known {
		return
	}
	m.report.Unkillable, m.dirty = pids, true
	reason := fmt.Sprintf("UNKILLABLE pid %d: %s survives SIGKILL since %s: its device stays locked until the node is rebooted",
		pids[0], left[0], UnkillableAfter)
	m.log.Error().Msg(reason)
	if m.report.Failed == nil {
		m.report.Failed = &record.Failed{Kind: record.NodeRefused, Reason: reason, Rank: -1, At: time.Now(), Unkillable: pids}
	}
}

// settleStopped waits for the logs' ends and the locks, then says Stopped. A log
// that does not end on a disk that hangs is left alone.
func (m *machine) settleStopped(now int64) {
	for _, w := range m.workers {
		if w.log == nil {
			continue
		}
		select {
		case <-w.log.done:
		default:
			if now >= m.emptySince+int64(2*flushWait) {
				continue
			}
			if now >= m.emptySince+int64(flushWait) {
				w.log.stop()
			}
			m.pause(now)
			return
		}
	}
	if m.failing != nil {
		m.alarm.at(now + firstPause)
		return
	}
	// What the workers said before they were gone is still to be read.
	if len(m.sdk.links) > 0 && now < m.emptySince+int64(flushWait) {
		m.pause(now)
		return
	}
	if m.locksFree(now) {
		m.stopped()
	}
}

// locksFree reports whether the devices' locks are there for the next. That is
// looked at beside, since the locks' files lie on a disk: an answer is the next event.
func (m *machine) locksFree(now int64) bool {
	switch {
	case m.unlocked:
		return true
	case m.looking:
	case now < m.nextLook:
		m.alarm.at(m.nextLook)
	default:
		m.looking = true
		own := m.locks
		m.locks = nil
		go m.freeLocks(own)
	}
	return false
}

// freeLocks gives up our own locks. What of the run has one without being in the
// cage is killed; others who have one, though they are none of the run's, keep a
// lock that stands for nothing any more.
func (m *machine) freeLocks(own *locks) {
	var err error
	if own != nil {
		err = own.close()
	}
	files := locksOf(m.order, m.dir)
	held, errBack := files.giveBack()
	err = errors.Join(err, errBack)
	if len(held) > 0 {
		s := &sweeper{dir: m.dir, owner: &m.order.Owner.UID}
		c, errFind := observed.census()
		if err = errors.Join(err, errFind); errFind == nil {
			s.seen = c
			found := c.marked(s.dir, s.owner)
			err = errors.Join(err, killAll(nil, found))
			if len(found) == 0 {
				err = errors.Join(err, files.clear(s.hidden(nil) == nil))
			}
		}
	}
	if err != nil {
		m.log.Error().Err(err).Msg("free the device locks")
	}
	m.post(func() {
		m.looking, m.unlocked = false, len(held) == 0
		m.emptyPause = min(max(2*m.emptyPause, firstPause), lastPause)
		m.nextLook = Boottime() + m.emptyPause
		if !m.unlocked && !m.pursued {
			m.pursued = true
			m.log.Error().Strs("locks", held).Msg("device locks are held outside of the containment")
		}
	})
}

func (m *machine) stopped() {
	s := &record.Stopped{Finished: true, SignalledAt: m.signalledAt, ExitedAt: m.exitedAt}
	for _, w := range m.workers {
		s.Finished = s.Finished && w.exit != nil && w.exit.Code == 0 && !w.told
		if w.exit != nil {
			s.Exits = append(s.Exits, *w.exit)
		}
	}
	if s.ExitedAt.IsZero() { // nothing was ever started
		s.ExitedAt = time.Now()
	}
	m.report.Stopped, m.dirty = s, true
	m.log.Info().Bool("finished", s.Finished).Msg("stopped")
	if err := m.cage.remove(); err != nil {
		m.log.Warn().Err(err).Msg("remove cgroup")
	}
}

// lastWords is how long a shim that may go tries to write its last report.
const lastWords = 5 * time.Second

func (m *machine) settleRetire(now int64) {
	if !m.wish.Retire && m.terminated == 0 {
		return
	}
	if m.leaveBy == 0 {
		m.leaveBy = now + int64(lastWords)
	}
	m.ended = now >= m.leaveBy || !m.dirty && m.durable == m.sequence
	m.alarm.at(m.leaveBy)
}

package shim

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/cluster"
)

// clearWait is how long the removal of groups that are in use is tried, unless the shim may leave earlier.
const clearWait = 10 * time.Second

// shared is what all parts of a shim have in common. What changes of it the loop owns.
type shared struct {
	dir    string
	order  run.Order
	member cluster.Member
	id     owner.Identity
	log    zerolog.Logger
	heard  zerolog.Logger // for what others cause: a job must not fill the disk with it

	events chan func()
	done   chan struct{} // closed when the loop has ended
	abort  context.Context
	cancel context.CancelFunc // ends the preparations and keeps further workers from being executed

	containment *contain.Containment
	alarm       *alarm
	state       *run.State
	facts       run.Facts
	workers     []*worker // by local rank, as facts.Workers
}

// post has the loop run f, unless it has ended.
func (s *shared) post(f func()) {
	select {
	case s.events <- f:
	case <-s.done:
	}
}

// worker is one rank of this node.
type worker struct {
	rank   int
	device cluster.DeviceID
	fact   *run.Worker // in facts.Workers
	log    *workerLog
	link   *link // its SDK's connection; nil if there is none
}

func (w *worker) runs() bool { return w.fact.PID != 0 && w.fact.Exit == nil }

// silent reports whether all that the worker has said is read: its lines, and its messages, of
// which the last may say why it has ended.
func (w *worker) silent() bool { return !w.logs() && w.link == nil }

// logs reports whether what the worker prints may still come.
func (w *worker) logs() bool {
	if w.log == nil {
		return false
	}
	select {
	case <-w.log.done:
		return false
	default:
		return true
	}
}

// machine is the shell around run.State. One goroutine, the loop, owns all of it, and all others send it functions to
// run. After whatever happened it brings the facts up to date, has run.State.Step decide, and carries out what is due.
// Nothing in that goroutine waits for a disk, a user's file system, a log or a peer, since it is what keeps the fencing
// deadline: the files that it reads and writes itself are the kernel's own, below /proc and /sys/fs/cgroup.
type machine struct {
	*shared

	journal *journal
	agents  *agentServer
	sdk     *workerServer
	ahead   *ahead
	starter *starter
	meets   *meetWatch

	due         run.Due
	pauses      pauses
	sequence    int64 // of the newest report for the disk
	durable     int64 // of the newest one that is on disk
	unconfirmed []confirmation
	halted      bool  // an agent has passed the leader's halt on
	clearBy     int64 // the removal of groups that are in use is given up; 0 = none is tried
	ended       bool  // leave the loop
}

// assemble makes the parts.
func assemble(sh *shared) *machine {
	m := &machine{shared: sh, ahead: &ahead{shared: sh}, meets: &meetWatch{shared: sh}}
	m.journal = &journal{
		path: filepath.Join(sh.dir, rundir.ReportFile), slot: make(chan entry, 1), done: sh.done, log: sh.log,
		stored: func(sequence int64) { sh.post(func() { m.stored(sequence) }) },
	}
	m.agents = &agentServer{shared: sh, wished: m.wished, conns: map[*agentConn]bool{}}
	m.sdk = &workerServer{shared: sh, links: map[*link]bool{}, confirm: m.confirmLater}
	m.starter = &starter{shared: sh, ahead: m.ahead, sdk: m.sdk}
	return m
}

// run is the machine's life: it returns once run.State has the shim leave.
func (m *machine) run(ctx context.Context) {
	defer close(m.done)
	// Notify and not Ignore: what is ignored stays ignored in the workers.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(signals)
	defer signal.Stop(children)

	gone := ctx.Done()
	for {
		if m.step(); m.ended {
			return
		}
		select {
		case f := <-m.events:
			f()
		case <-children: // they are reaped by the next look
		case <-m.alarm.rang:
		case s := <-signals:
			if s == unix.SIGTERM { // the others mean a terminal, which is none of our business
				m.told("the shim was told to end (SIGTERM)")
			}
		case <-gone:
			gone = nil
			m.told("the shim was told to end")
		}
	}
}

func (m *machine) told(why string) {
	if m.facts.Told == "" {
		m.facts.Told = why
	}
}

// wished takes in what an agent wants.
func (m *machine) wished(w run.Wish) {
	if w.Halt != nil && !m.halted {
		m.halted = true
		m.log.Info().Stringer("why", w.Halt.Why).Bool("save", w.Halt.Save).Msg("halt")
	}
	m.facts.Wish = w
}

// step does all that is due, and sets the alarm for what is due next.
func (m *machine) step() {
	for {
		m.look(m.due.Look)
		m.facts.Now, m.facts.Clock = proc.Boottime(), time.Now()
		before := m.state.Report
		was := m.due.Look
		m.due = m.state.Step(&m.facts)
		m.note(&before)
		for _, a := range m.due.Actions {
			m.carryOut(a)
		}
		m.publish() // who hears that the run has stopped finds its groups gone
		if was != m.due.Look {
			m.pauses = 0
		}
		if m.ended || !slices.ContainsFunc(m.due.Actions, changes) && m.due.Look&^m.facts.Looked == 0 {
			break
		}
	}
	now := m.facts.Now
	m.alarm.clear()
	if m.due.At != 0 {
		m.alarm.at(m.due.At)
	}
	switch look := m.due.Look; {
	case look&run.LookOutput != 0:
		m.alarm.at(now + 5*int64(proc.FirstPause))
	case look&(run.LookInside|run.LookNames) != 0:
		m.alarm.at(now + m.pauses.next())
	case look&run.LookAhead != 0:
		m.alarm.at(now + int64(warm.MemoryPeriod))
	}
	m.ahead.step(now)
	m.meets.step(now)
	m.stepClear(now)
	m.alarm.set()
}

// changes reports whether an action may make another one due at once. A kill does not: the alarm rings for the next one,
// and the loop hears of everything else in between, however long a kill takes.
func changes(a run.Action) bool {
	switch a.(type) {
	case run.Kill, run.KillAhead:
		return false
	}
	return true
}

// carryOut does one thing, or has it begun beside the loop.
func (m *machine) carryOut(a run.Action) {
	switch a := a.(type) {
	case run.ReadPlan:
		m.facts.Plan = run.Plan{}
		go m.readPlan(m.order)
	case run.Bind:
		m.facts.Binding = run.Binding{}
		if m.bind(m.state.Order()); m.facts.Binding.Failed != nil {
			m.facts.Binding.Done = true
			break
		}
		go m.recordGroups(m.record())
	case run.CheckNode:
		m.facts.Node = run.NodeCheck{}
		go m.starter.check()
	case run.Execute:
		m.facts.Execution = run.Execution{}
		go m.starter.execute()
	case run.Park:
		m.ahead.begin(a.Processes)
	case run.GiveUp:
		m.ahead.giveUp(a)
	case run.KillAhead:
		if err := m.containment.KillAhead(); err != nil {
			m.log.Error().Err(err).Msg("kill what runs ahead")
		}
	case run.Welcome:
		m.workers[a.Local].say(toWorker{Welcome: &struct{}{}}, nil)
	case run.Hold:
		m.workers[a.Local].say(toWorker{Hold: &struct{}{}}, nil)
	case run.StopAfter:
		w := m.workers[a.Local]
		w.say(toWorker{StopAfter: &a.Step}, func() { w.fact.StoppedAt = time.Now() })
	case run.Terminate:
		// Not reaped yet, so the pid cannot be anybody else's.
		w := m.workers[a.Local]
		if err := unix.Kill(w.fact.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
			m.log.Warn().Err(err).Int("rank", w.rank).Msg("send SIGTERM")
		}
	case run.Abort:
		if !m.state.Over(&m.facts) {
			m.log.Warn().Str("why", a.Why).Msg("killing the workers")
		}
		m.cancel()
	case run.Kill:
		if err := m.containment.Kill(); err != nil {
			m.log.Error().Err(err).Msg("kill the workers")
		}
	case run.StopLogs:
		for _, w := range m.workers {
			if w.logs() {
				w.log.stop()
			}
		}
	case run.ReturnLocks:
		m.facts.LocksFree = false
		l := lockReturn{shared: m.shared, shim: m.state.Report.Shim}
		go l.giveBack(m.starter.locks)
	case run.RemoveGroups:
		m.clearBy = m.facts.Now + int64(clearWait)
		m.stepClear(m.facts.Now)
	case run.Leave:
		if m.clearBy != 0 {
			m.leaveGroups(m.containment.Remove())
		}
		m.ended = true
	}
}

// look brings those facts up to date that nothing announces.
func (m *machine) look(what run.Look) {
	m.reap()
	f := &m.facts
	f.Ahead.Living = len(m.ahead.living)
	for _, w := range m.workers {
		if what&run.LookSignals != 0 && w.runs() && w.link == nil {
			w.fact.Deaf = !proc.Catches(w.fact.PID, unix.SIGTERM)
		}
		if what&run.LookOutput != 0 && w.log != nil {
			w.fact.Silent, w.fact.Lines = w.silent(), w.log.lastLines()
		}
	}
	if what&run.LookOutput != 0 {
		f.Links, f.Logs = len(m.sdk.links), false
		for _, w := range m.workers {
			f.Logs = f.Logs || w.logs()
		}
	}
	if what&run.LookInside != 0 {
		empty, err := m.containment.Empty()
		if err != nil {
			m.log.Error().Err(err).Msg("look for what is left")
		}
		f.Inside.Empty = empty && err == nil
	}
	if what&run.LookNames != 0 {
		left, err := m.containment.Left()
		if err != nil {
			m.log.Error().Err(err).Msg("name what is left")
		}
		f.Inside.Left, f.Inside.Names = proc.Identities(left), nil
		for _, s := range left {
			f.Inside.Names = append(f.Inside.Names, s.String())
		}
		f.Inside.KillPending = err == nil && proc.OnlyKillPending(left, m.containment.Left)
	}
	if what&run.LookAhead != 0 {
		m.ahead.look()
	}
	f.Looked = what
}

// note logs what a Step has found out.
func (m *machine) note(before *run.Report) {
	now := &m.state.Report
	if now.Held != nil && before.Held == nil {
		m.log.Info().Bool("sdk", now.Held.SDK).Int64("begun", now.Held.Begun).Bool("deaf", now.Held.Deaf).Msg("held")
	}
	if len(now.Unkillable) > 0 && len(before.Unkillable) == 0 {
		m.log.Error().Ints("pids", now.Unkillable).Msg("UNKILLABLE: the device stays locked until the node is rebooted")
	}
	if now.Stopped != nil && before.Stopped == nil {
		m.log.Info().Bool("finished", now.Stopped.Finished).Msg("stopped")
	}
}

// stepClear removes the run's groups. A process of others may be in one, for a moment or for long.
func (m *machine) stepClear(now int64) {
	if m.clearBy == 0 {
		return
	}
	err := m.containment.Remove()
	switch {
	case err == nil:
		m.clearBy, m.facts.GroupsGone = 0, true
		m.alarm.at(1)
	case errors.Is(err, unix.EBUSY) && now < m.clearBy:
		m.alarm.at(now + m.pauses.next())
	default:
		m.leaveGroups(err)
		m.alarm.at(1)
	}
}

// leaveGroups gives up the removal of groups that are in use.
func (m *machine) leaveGroups(why error) {
	m.clearBy, m.facts.GroupsGone = 0, true
	if why != nil {
		m.log.Warn().Err(why).Msg("remove cgroup")
	}
}

// pauses between polls for things that no signal announces begin short and double.
type pauses int64

func (p *pauses) next() int64 {
	*p = min(max(2**p, pauses(proc.FirstPause)), pauses(proc.LastPause))
	return int64(*p)
}

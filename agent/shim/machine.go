package shim

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// phase is how far the shim has come with its workers. Only a prepared run begins unbound.
//
//	unbound ──► preparing ──► ready ──► starting ──► running ──► (empty) stopped
//	   │            │           │           │
//	   └────────────┴───────────┴───────────┴──► whatever was started is killed ──► stopped
type phase uint8

const (
	unbound   phase = iota // there is no plan yet
	preparing              // the node is looked at, the locks are taken
	ready                  // all is there; only the deadline may be missing
	starting               // workers are being executed
	running                // all were executed, or none will be any more
)

// shared is what all parts of a shim have in common. What changes of it the loop owns.
type shared struct {
	dir    string
	order  run.Order
	member cluster.Member
	id     identity
	log    zerolog.Logger
	heard  zerolog.Logger // for what others cause: a job must not fill the disk with it

	events chan func()
	done   chan struct{} // closed when the loop has ended
	abort  context.Context
	cancel context.CancelFunc // ends the preparations and keeps further workers from being executed

	containment *containment
	alarm       *alarm
	phase       phase
	workers     []*worker
	wish        run.Wish
	forking     bool // a process that runs ahead is being executed, which cannot be taken back
}

// post has the loop run f, unless it has ended.
func (s *shared) post(f func()) {
	select {
	case s.events <- f:
	case <-s.done:
	}
}

// over reports whether no worker runs nor will run.
func (s *shared) over() bool {
	return s.phase == running && !slices.ContainsFunc(s.workers, (*worker).runs)
}

// machine is the whole of a shim. One goroutine, the loop, owns all its parts, and
// all others send it functions to run. It is level-triggered: after whatever
// happened, step has each part look at everything that is known and do what is
// due. Nothing in that goroutine waits for a disk, a user's file system, a log or a
// peer, since it is what keeps the fencing deadline: the files that it reads and
// writes itself are the kernel's own, below /proc and /sys/fs/cgroup.
type machine struct {
	*shared
	*reporter

	binder  *binder
	ahead   *ahead
	starter *starter
	halter  *halter
	killer  *killer
	reaper  *reaper
	ender   *ender
	meets   *meetWatch
	sdk     *workerServer
}

// assemble makes the parts.
func assemble(sh *shared, first run.Report) *machine {
	r := &reporter{shared: sh, report: first, dirty: true}
	r.journal = &journal{
		path: filepath.Join(sh.dir, reportFile), slot: make(chan entry, 1), done: sh.done, log: sh.log,
		stored: func(sequence int64) { sh.post(func() { r.stored(sequence) }) },
	}
	k := &killer{shared: sh, reporter: r}
	h := &halter{shared: sh, reporter: r, killer: k}
	reap := &reaper{shared: sh, reporter: r, killer: k}
	sdk := &workerServer{shared: sh, reporter: r, halter: h, links: map[*link]bool{}}
	locks := &lockReturn{shared: sh, shim: first.Shim}
	ahd := &ahead{shared: sh, reporter: r, killer: k, reaper: reap}
	start := &starter{shared: sh, reporter: r, killer: k, reaper: reap, locks: locks, sdk: sdk, ahead: ahd}
	m := &machine{
		shared: sh, reporter: r, halter: h, killer: k, reaper: reap, sdk: sdk,
		binder: &binder{shared: sh, reporter: r, killer: k, starter: start}, ahead: ahd, starter: start, meets: &meetWatch{shared: sh, reporter: r},
		ender: &ender{shared: sh, reporter: r, killer: k, reaper: reap, ahead: ahd, locks: locks, sdk: sdk},
	}
	r.agents = &agentServer{shared: sh, wished: m.wished, conns: map[*agentConn]bool{}}
	return m
}

// worker is one rank of this node.
type worker struct {
	record.Worker
	log   *workerLog
	link  *link // its SDK's connection; nil if there is none
	begun *int64
	told  bool // to stop: by SIGTERM, by stop_after or by being killed
	term  bool // SIGTERM was sent
	// unsaved: why its last save failed, where that was a full disk's fault or a
	// failing file system's; empty = it was not. unsavedFor says which.
	unsaved    string
	unsavedFor record.FailureKind
	exit       *record.Exit
}

func (w *worker) runs() bool { return w.PID != 0 && w.exit == nil }

// silent reports whether all that the worker has said is read: its lines, and its messages, of
// which the last may say why it has ended.
func (w *worker) silent() bool {
	select {
	case <-w.log.done:
		return w.link == nil
	default:
		return false
	}
}

// run is the machine's life: prepare, execute, watch, clear up.
func (m *machine) run(ctx context.Context) {
	defer close(m.done)
	// Notify and not Ignore: what is ignored stays ignored in the workers.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(signals)
	defer signal.Stop(children)

	if m.phase == preparing {
		m.starter.begin()
	}
	gone := ctx.Done()
	for {
		if m.step(Boottime()); m.ender.ended {
			return
		}
		select {
		case f := <-m.events:
			f()
		case <-children:
			m.reaper.reap()
		case <-m.alarm.rang:
		case s := <-signals:
			if s == unix.SIGTERM { // the others mean a terminal, which is none of our business
				m.ender.terminate("the shim was told to end (SIGTERM)")
			}
		case <-gone:
			gone = nil
			m.ender.terminate("the shim was told to end")
		}
	}
}

// step does all that is due, and sets the alarm for what is due next.
func (m *machine) step(now int64) {
	m.alarm.clear()
	m.stepDeadline(now)
	m.binder.stepBind(now)
	m.halter.stepHalt(now)
	m.ahead.stepAhead(now)
	m.starter.stepStart(now)
	m.reaper.stepFailure(now)
	m.killer.stepKill(now)
	m.ender.stepEnd(now)
	m.meets.stepMeet(now)
	m.stepReport(now)
	m.alarm.set()
}

// stepDeadline fences: it depends on no other process, and goes before everything else.
func (m *machine) stepDeadline(now int64) {
	if m.wish.Kill != "" {
		m.killer.kill(m.wish.Kill)
	}
	if !m.order.Strict || m.over() {
		return
	}
	if fence.Expired(now, m.wish.Deadline) {
		m.killer.fail(record.NodeFenced, "it lost touch with the cluster, and its workers were killed at the fencing deadline")
		return
	}
	if m.wish.Deadline != 0 {
		m.alarm.at(m.wish.Deadline)
	}
}

// wished takes in what the agent wants.
func (m *machine) wished(w run.Wish) {
	before := m.wish
	if w.Deadline == 0 {
		w.Deadline = before.Deadline
	}
	if w.Halt == nil {
		w.Halt = before.Halt
	}
	if w.Kill == "" {
		w.Kill = before.Kill
	}
	w.Start = w.Start || before.Start
	if before.Halt == nil && w.Halt != nil {
		m.log.Info().Stringer("why", w.Halt.Why).Bool("save", w.Halt.Save).Msg("halt")
	}
	m.wish = w
	m.echoDeadline()
}

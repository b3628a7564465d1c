package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// phase is how far the shim has come with its workers.
//
//	preparing ──► ready ──► starting ──► running ──► (empty) stopped
//	    │           │           │
//	    └───────────┴───────────┴──► whatever was started is killed ──► stopped
type phase uint8

const (
	preparing phase = iota // the node is looked at, the locks are taken
	ready                  // all is there; only the deadline may be missing
	starting               // workers are being executed
	running                // all were executed, or none will be any more
)

// machine is the whole of a shim: one goroutine owns it, all others send it
// functions to run. It is level-triggered: after whatever happened, settle looks
// at everything that is known and does what is due. Nothing in that goroutine
// waits for a disk, a user's file system, a log or a peer, since it is what keeps
// the fencing deadline: the files that it reads and writes itself are the kernel's
// own, below /proc and /sys/fs/cgroup.
type machine struct {
	dir    string
	order  Order
	member cluster.Member
	id     identity
	log    zerolog.Logger
	heard  zerolog.Logger // for what others cause: a job must not fill the disk with it

	events chan func()
	done   chan struct{} // closed when the machine has ended
	abort  context.Context
	cancel context.CancelFunc // ends the preparations and keeps further workers from being executed

	cage    *cage
	locks   *locks
	alarm   *alarm
	journal *journal
	sdk     *workerServer
	agents  map[*agentConn]bool

	phase     phase
	program   string
	env       map[string]string // as submitted, with what the owner's file adds
	prepareBy int64
	locking   bool // the preparations are taking the locks
	workers   []*worker
	wish      Wish
	ended     bool // leave the loop

	killed    string // why; empty = not
	killedAt  int64
	nextKill  int64
	killPause int64

	looking, unlocked bool // the locks are being looked at, were found free
	nextLook          int64
	pursued           bool // a lock was found held outside of the cage, and that was told

	haltSeen, haltEnds, stopNow int64 // when the halt was first seen, when it is over, when -1 was seen
	sdkSeen                     bool  // any rank has ever said hello
	signalledAt, exitedAt       time.Time

	failing     *record.Failed // waits for the last lines of its rank's log
	failingRank *worker
	failingBy   int64

	outSince, emptySince, emptyPause int64
	terminated, leaveBy              int64 // asked to go by a signal; the last report is given up

	report       Report
	dirty        bool // the report has changed
	fresh        bool // its progress has
	progressDue  bool // progress waits for its next second
	progressSent int64
	progressFrom *record.JobProgress // the first one, to measure from
	sequence     int64               // of the newest report
	durable      int64               // of the newest one that is on disk
	unconfirmed  []confirmation
	encoded      []byte
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

// post has the machine run f, unless it has ended.
func (m *machine) post(f func()) {
	select {
	case m.events <- f:
	case <-m.done:
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

	m.prepareBy = Boottime() + int64(prepareBound)
	go m.prepare()
	gone := ctx.Done()
	for {
		if m.settle(Boottime()); m.ended {
			return
		}
		select {
		case f := <-m.events:
			f()
		case <-children:
			m.reap()
		case <-m.alarm.rang:
		case s := <-signals:
			if s == unix.SIGTERM { // the others mean a terminal, which is none of our business
				m.terminate("the shim was told to end (SIGTERM)")
			}
		case <-gone:
			gone = nil
			m.terminate("the shim was told to end")
		}
	}
}

func (m *machine) terminate(why string) {
	if m.terminated == 0 {
		m.terminated = Boottime()
		m.kill(why)
	}
}

// settle does all that is due, and sets the alarm for what is due next.
func (m *machine) settle(now int64) {
	m.alarm.clear()
	m.settleDeadline(now)
	m.settleHalt(now)
	m.settleStart(now)
	m.settleFailure(now)
	m.settleKill(now)
	m.settleEnd(now)
	m.settleReport(now)
	m.alarm.set()
}

// settleDeadline fences: it needs nobody's word, and goes before everything else.
func (m *machine) settleDeadline(now int64) {
	if m.wish.Kill != "" {
		m.kill(m.wish.Kill)
	}
	if !m.order.Strict || m.over() {
		return
	}
	if fence.Expired(now, m.wish.Deadline) {
		m.fail(record.NodeFenced, "it lost touch with the cluster, and its workers were killed at the fencing deadline")
		return
	}
	if m.wish.Deadline != 0 {
		m.alarm.at(m.wish.Deadline)
	}
}

// settleStart executes the workers once everything allows it.
func (m *machine) settleStart(now int64) {
	switch {
	case m.phase == preparing && m.killed == "":
		if now >= m.prepareBy {
			m.fail(record.Transient, fmt.Sprintf("no answer within %s: %s", prepareBound, m.report.Waiting))
			return
		}
		m.alarm.at(m.prepareBy)
	case m.phase == ready && m.killed != "":
		m.phase = running
	case m.phase == ready && m.order.Strict && m.wish.Deadline == 0:
		m.waiting("the agent has not told the first fencing deadline")
	case m.phase == ready:
		m.phase = starting
		m.waiting("")
		go m.execute()
	}
}

// over reports whether no worker runs nor will run.
func (m *machine) over() bool {
	return m.phase == running && !slices.ContainsFunc(m.workers, (*worker).runs)
}

func (m *machine) waiting(what string) {
	if m.report.Waiting != what {
		m.report.Waiting, m.dirty = what, true
	}
}

// wished takes in what the agent wants.
func (m *machine) wished(w Wish) {
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
	if before.Halt == nil && w.Halt != nil {
		m.log.Info().Str("why", w.Halt.Why).Bool("save", w.Halt.Save).Msg("halt")
	}
	m.wish = w
	m.echoDeadline()
}

// echoDeadline has the report say which deadline is in force. That goes out at
// once; on disk it is of no use, and would be written with each renewal.
func (m *machine) echoDeadline() {
	if m.order.Strict && m.report.Deadline != m.wish.Deadline {
		m.report.Deadline, m.fresh = m.wish.Deadline, true
	}
}

// settleReport tells agents and disk what has changed.
func (m *machine) settleReport(now int64) {
	m.settleProgress(now)
	if !m.dirty && !m.fresh {
		return
	}
	b, err := json.Marshal(m.report)
	if err != nil {
		panic("shim: encode report: " + err.Error()) // plain data, and no number that JSON has no word for
	}
	m.encoded = append(b, '\n')
	for a := range m.agents {
		a.offer(m.encoded)
	}
	if m.dirty {
		m.sequence++
		m.journal.offer(entry{m.encoded, m.sequence})
	}
	m.dirty, m.fresh = false, false
}

// stored hears from the journal that the report of that sequence is on disk.
func (m *machine) stored(sequence int64) {
	m.durable = max(m.durable, sequence)
	m.confirm()
}

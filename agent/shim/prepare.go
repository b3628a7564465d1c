package shim

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
)

// prepareBound is how long the node may take to look at what the workers need:
// longer than any of the looks' own bounds, shorter than the leader's patience
// with a start, so that it gets to know why. A file system that hangs cannot be
// interrupted, only left alone.
const prepareBound = 45 * time.Second

// starter looks at the node, takes the locks, and executes the workers. The loop
// owns it.
type starter struct {
	*shared
	*reporter

	killer *killer
	reaper *reaper
	locks  *lockReturn
	sdk    *workerServer
	ahead  *ahead

	program string
	env     map[string]string // as submitted, with what the owner's file adds
	by      int64             // when the preparations have to be over
}

// stepStart executes the workers once everything allows it.
func (s *starter) stepStart(now int64) {
	switch {
	case s.phase == preparing && s.killer.why == "":
		if now >= s.by {
			s.killer.fail(record.Transient, fmt.Sprintf("no answer within %s: %s", prepareBound, s.report.Waiting))
			return
		}
		s.alarm.at(s.by)
	case (s.phase == ready || s.phase == unbound) && s.killer.why != "":
		s.phase = running
	case s.phase == ready && s.order.Strict && s.wish.Deadline == 0:
		s.waiting("the agent has not told the first fencing deadline")
	case s.phase == ready && !s.ahead.settled(): // what is left of it is cleared away
	case s.phase == ready:
		s.phase = starting
		s.waiting("")
		go s.execute()
	}
}

// begin has the node looked at.
func (s *starter) begin() {
	s.phase, s.by = preparing, Boottime()+int64(prepareBound)
	go s.prepare()
}

// prepare runs beside the loop, since everything it touches may hang. The
// locks come last: a start that is given up before does not hold them.
func (s *starter) prepare() {
	waiting := func(what string) { s.post(func() { s.waiting(what) }) }
	l := look{Dir: s.dir, Order: s.order, waiting: waiting, started: func(pid int) { s.post(func() { s.containment.apart = pid }) }}
	found, env, err := precheck(s.abort, s.order, l, s.id)
	s.post(func() { s.containment.apart = 0 })
	var held *locks
	if err == nil {
		err = writeModules(s.dir, s.order)
	}
	if err == nil && s.mayLock() {
		held, err = takeLocks(s.abort, s.order, s.dir, waiting)
	}
	s.post(func() {
		s.env = env
		if err == nil && s.order.Warms() {
			if command, _ := interpreted(s.order.Command, found); command.Cold != "" && !s.order.Waits() {
				s.report.Unforkable, s.dirty = record.Reason(printable(command.Cold)), true
			}
		}
		s.prepared(found.Program, held, err)
	})
}

// mayLock asks the loop whether the run still stands. From then on it waits
// for the preparations, which touch nothing that hangs any more, before it says Stopped.
func (s *starter) mayLock() bool {
	answer := make(chan bool, 1)
	s.post(func() {
		s.locks.taking = s.killer.why == ""
		answer <- s.locks.taking
	})
	select {
	case may := <-answer:
		return may
	case <-s.done:
		return false
	}
}

func (s *starter) prepared(program string, held *locks, err error) {
	s.program, s.locks.own, s.locks.taking = program, held, false
	s.waiting("")
	if s.phase == preparing {
		s.phase = ready
	}
	if err != nil && s.killer.why == "" {
		s.killer.failBy(err)
	}
}

// execute starts the workers one after the other, on a thread that lives as long
// as the loop: the kernel's parent death signal, by which workers die if the
// shim is killed, goes by the thread that started them and not by the process.
// It is beside the loop because an exec from a hanging file system hangs too.
//
// It collects no garbage meanwhile. A process that is being executed keeps its
// parent's thread, and with that one of Go's processors, until it is: a collection
// would stop all others, the loop with its deadline among them, to wait for it.
func (s *starter) execute() {
	runtime.LockOSThread() // never unlocked
	if s.order.NoNewPrivs {
		// This thread's for good, and so its children's; the shim's others keep theirs.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			s.post(func() {
				s.executed(s.workers[0], born{}, fmt.Errorf("keep workers from new privileges: %w", err))
				s.executedAll()
			})
			<-s.done
			return
		}
	}
	if parked := s.ahead.parked; len(parked) > 0 {
		s.releaseAll(parked)
		return
	}
	s.executeFrom(0)
}

// executeFrom executes the workers from that local rank on.
func (s *starter) executeFrom(first int) {
	collect := debug.SetGCPercent(-1)
	for i, w := range s.workers[first:] {
		if s.abort.Err() != nil {
			break
		}
		b, err := s.executeOne(first + i)
		s.post(func() { s.executed(w, b, err) })
		if err != nil {
			break
		}
	}
	debug.SetGCPercent(collect)
	s.post(s.executedAll)
	<-s.done
}

// born is a worker that was just executed.
type born struct {
	pid   int
	start uint64
	at    time.Time
	log   *workerLog
}

func (s *starter) executeOne(local int) (born, error) {
	log, out, err := openLog(s.order, s.member.FirstRank+local, s.newLineReader())
	if err != nil {
		return born{}, err
	}
	defer unix.Close(out) //nolint:errcheck // the worker has its own
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return born{}, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer unix.Close(null) //nolint:errcheck // as above
	order := s.order
	order.Env = s.env
	attr := &syscall.ProcAttr{
		Dir: s.order.Workdir,
		Env: environment(order, s.dir, local),
		// And no others: what a worker has, it can pass on.
		Files: []uintptr{uintptr(null), uintptr(out), uintptr(out)},
		// A session of its own: a terminal's Ctrl-C is not meant for workers.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, Credential: s.id.cred},
	}
	release, err := s.containment.hold(local, attr.Sys)
	if err != nil {
		log.stop()
		return born{}, err
	}
	pid, err := syscall.ForkExec(s.program, s.order.Command, attr)
	release()
	if err != nil {
		log.stop()
		return born{}, fmt.Errorf("execute %s: %w", s.program, explainExec(err))
	}
	at := time.Now()
	p, err := readStat(pid) // a zombie at worst: only the loop reaps it, once it knows of it
	if err != nil {
		return born{}, fmt.Errorf("execute %s: %w", s.program, err)
	}
	return born{pid, p.start, at, log}, nil
}

func explainExec(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: the interpreter named in its first line is missing on this node", err)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%w: begin the script with a line like #!/usr/bin/env python3, or submit the interpreter as the command", err)
	}
	return err
}

func (s *starter) executed(w *worker, b born, err error) {
	if err != nil {
		s.killer.failBy(err)
		return
	}
	w.PID, w.StartTime, w.log = b.pid, b.start, b.log
	s.log.Info().Int("rank", w.Rank).Str("device", string(w.Device)).Int("pid", w.PID).Msg("worker executed")
	if s.report.ExecedAt.IsZero() {
		s.report.ExecedAt, s.dirty = b.at, true
	}
	s.sdk.admitEarly()
	if s.killer.why != "" { // what was started after the killing began is killed at once
		s.killer.next = 0
	}
}

func (s *starter) executedAll() {
	s.phase = running
	all := make([]record.Worker, 0, len(s.workers))
	for _, w := range s.workers {
		if w.PID != 0 {
			all = append(all, w.Worker)
		}
	}
	if len(all) == len(s.workers) {
		s.report.Workers, s.dirty = all, true
	}
	s.reaper.reap()
	s.sdk.admitEarly()
}

package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/sdk"
)

// prepareBound is how long the node may take to look at what the workers need:
// longer than any of the looks' own bounds, shorter than the leader's patience
// with a start, so that it gets to know why. A file system that hangs cannot be
// interrupted, only left alone.
const prepareBound = 45 * time.Second

// prepare runs beside the machine, since everything it touches may hang. The
// locks come last: whoever is given up before does not hold them.
func (m *machine) prepare() {
	waiting := func(what string) { m.post(func() { m.waiting(what) }) }
	l := look{Dir: m.dir, Order: m.order, waiting: waiting, started: func(pid int) { m.post(func() { m.cage.apart = pid }) }}
	program, env, err := precheck(m.abort, m.order, l, m.id)
	m.post(func() { m.cage.apart = 0 })
	var held *locks
	if err == nil {
		err = m.writeModule()
	}
	if err == nil && m.mayLock() {
		held, err = takeLocks(m.abort, m.order, m.dir, waiting)
	}
	m.post(func() {
		m.env = env
		m.prepared(program, held, err)
	})
}

// mayLock asks the machine whether the run still stands. From then on it waits
// for the preparations, which touch nothing that hangs any more, before it says Stopped.
func (m *machine) mayLock() bool {
	answer := make(chan bool, 1)
	m.post(func() {
		m.locking = m.killed == ""
		answer <- m.locking
	})
	select {
	case may := <-answer:
		return may
	case <-m.done:
		return false
	}
}

func (m *machine) prepared(program string, held *locks, err error) {
	m.program, m.locks, m.locking = program, held, false
	m.waiting("")
	if m.phase == preparing {
		m.phase = ready
	}
	var r *refusal
	switch {
	case err == nil || m.killed != "":
	case errors.As(err, &r):
		m.fail(r.kind, err.Error())
	default:
		m.fail(FailureOf(err), err.Error())
	}
}

// writeModule puts bellows.py where the workers' PYTHONPATH begins.
func (m *machine) writeModule() error {
	dir := filepath.Join(m.dir, pythonDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write Python module: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, sdk.FileName), sdk.Module, 0o644); err != nil {
		return fmt.Errorf("write Python module: %w", err)
	}
	return nil
}

// execute starts the workers one after the other, on a thread that lives as long
// as the machine: the kernel's parent death signal, by which workers die if the
// shim is killed, goes by the thread that started them and not by the process.
// It is beside the machine because an exec from a hanging file system hangs too.
//
// It collects no garbage meanwhile. A process that is being executed keeps its
// parent's thread, and with that one of Go's processors, until it is: a collection
// would stop all others, the machine with its deadline among them, to wait for it.
func (m *machine) execute() {
	runtime.LockOSThread() // never unlocked
	if m.order.NoNewPrivs {
		// This thread's for good, and so its children's; the shim's others keep theirs.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			m.post(func() {
				m.executed(m.workers[0], born{}, fmt.Errorf("keep workers from new privileges: %w", err))
				m.executedAll()
			})
			<-m.done
			return
		}
	}
	collect := debug.SetGCPercent(-1)
	for i, w := range m.workers {
		if m.abort.Err() != nil {
			break
		}
		b, err := m.executeOne(i)
		m.post(func() { m.executed(w, b, err) })
		if err != nil {
			break
		}
	}
	debug.SetGCPercent(collect)
	m.post(m.executedAll)
	<-m.done
}

// born is a worker that was just executed.
type born struct {
	pid   int
	start uint64
	at    time.Time
	log   *workerLog
}

func (m *machine) executeOne(local int) (born, error) {
	log, out, err := openLog(m.order, m.member.FirstRank+local)
	if err != nil {
		return born{}, err
	}
	defer unix.Close(out) //nolint:errcheck // the worker has its own
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return born{}, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer unix.Close(null) //nolint:errcheck // as above
	order := m.order
	order.Env = m.env
	attr := &syscall.ProcAttr{
		Dir: m.order.Workdir,
		Env: environment(order, m.dir, local),
		// And no others: what a worker has, it can pass on.
		Files: []uintptr{uintptr(null), uintptr(out), uintptr(out)},
		// A session of its own: a terminal's Ctrl-C is not meant for workers.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, Credential: m.id.cred},
	}
	release, err := m.cage.hold(local, attr.Sys)
	if err != nil {
		log.stop()
		return born{}, err
	}
	pid, err := syscall.ForkExec(m.program, m.order.Command, attr)
	release()
	if err != nil {
		log.stop()
		return born{}, fmt.Errorf("execute %s: %w", m.program, explainExec(err))
	}
	at := time.Now()
	s, err := readStat(pid) // a zombie at worst: only the machine reaps it, once it knows of it
	if err != nil {
		return born{}, fmt.Errorf("execute %s: %w", m.program, err)
	}
	return born{pid, s.start, at, log}, nil
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

func (m *machine) executed(w *worker, b born, err error) {
	if err != nil {
		m.fail(FailureOf(err), err.Error())
		return
	}
	w.PID, w.StartTime, w.log = b.pid, b.start, b.log
	m.log.Info().Int("rank", w.Rank).Str("device", string(w.Device)).Int("pid", w.PID).Msg("worker executed")
	if m.report.ExecedAt.IsZero() {
		m.report.ExecedAt, m.dirty = b.at, true
	}
	m.sdk.admitEarly()
	if m.killed != "" { // what was started after the killing began is killed at once
		m.nextKill = 0
	}
}

func (m *machine) executedAll() {
	m.phase = running
	all := make([]record.Worker, 0, len(m.workers))
	for _, w := range m.workers {
		if w.PID != 0 {
			all = append(all, w.Worker)
		}
	}
	if len(all) == len(m.workers) {
		m.report.Workers, m.dirty = all, true
	}
	m.reap()
	m.sdk.admitEarly()
}

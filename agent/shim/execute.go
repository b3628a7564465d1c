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

	"github.com/bellows-ml/bellows/agent/devicelock"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/cluster"
)

// starter looks at the node, takes the locks, and executes the workers.
type starter struct {
	*shared

	ahead *ahead
	sdk   *workerServer

	locks   *devicelock.Locks // of the run's devices
	program string
	env     map[string]string // as submitted, with what the owner's file adds
}

// check runs beside the loop, since everything it touches may hang. The
// locks come last: a start that is given up before does not hold them.
func (s *starter) check() {
	waiting := func(what string) { s.post(func() { s.facts.Node.Waiting = what }) }
	l := precheck.Question{Dir: s.dir, Order: s.order, Waiting: waiting, Started: func(pid int) { s.post(func() { s.containment.Except(pid) }) }}
	found, env, err := precheck.Check(s.abort, s.order, l, s.id)
	s.post(func() { s.containment.Except(0) })
	var held *devicelock.Locks
	if err == nil {
		err = warm.WriteModules(s.dir, s.order)
	}
	if err == nil && s.mayLock() {
		held, err = s.lockDevices(waiting)
	}
	s.post(func() {
		s.program, s.env, s.locks = found.Program, env, held
		s.facts.Node = run.NodeCheck{Task: run.Task{Done: true, Failed: precheck.Failed(err)}}
		if err == nil && s.order.Warms() {
			if command, _ := warm.Interpreted(s.order.Command, found.Program, found.Shebang); command.Cold != "" && !s.order.Waits() {
				s.facts.Node.Unforkable = cluster.Printable(command.Cold)
			}
		}
	})
}

// lockDevices takes the locks of the run's devices.
func (s *starter) lockDevices(waiting func(string)) (*devicelock.Locks, error) {
	w := s.order.World
	claim := devicelock.Claim{Job: w.Job, Generation: w.Generation, Run: s.dir, Shim: os.Getpid()}
	switch rec, err := rundir.ReadRecord(s.dir); {
	case err == nil:
		claim.Record = &rec
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("lock devices: %w", err)
	}
	return devicelock.Take(s.abort, devicelock.Request{
		Dir: s.order.LockDir, Devices: s.member.Devices, Claim: claim, Left: sweep.Left, Waiting: waiting,
	})
}

// mayLock asks the loop whether the run still stands. From then on the run waits
// for the check, which touches nothing that hangs any more, before it says Stopped.
func (s *starter) mayLock() bool {
	answer := make(chan bool, 1)
	s.post(func() {
		s.facts.Node.Locking = !s.state.Killing()
		answer <- s.facts.Node.Locking
	})
	select {
	case may := <-answer:
		return may
	case <-s.done:
		return false
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
	log, out, err := openLog(s.order, s.member.FirstRank+local, newLineReader(s.shared))
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
		Env: run.Listed(order.Environment(s.dir, local)),
		// And no others: what a worker has, it can pass on.
		Files: []uintptr{uintptr(null), uintptr(out), uintptr(out)},
		// A session of its own: a terminal's Ctrl-C is not meant for workers.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, Credential: s.id.Cred},
	}
	pid, err := s.containment.Execute(local, s.program, s.order.Command, attr)
	if err != nil {
		log.stop()
		return born{}, err
	}
	at := time.Now()
	p, err := proc.ReadStat(pid) // a zombie at worst: only the loop reaps it, once it knows of it
	if err != nil {
		return born{}, fmt.Errorf("execute %s: %w", s.program, err)
	}
	return born{pid, p.Start, at, log}, nil
}

func (s *starter) executed(w *worker, b born, err error) {
	if err != nil {
		s.facts.Execution.Failed = precheck.Failed(err)
		return
	}
	w.log = b.log
	w.fact.PID, w.fact.StartTime, w.fact.ExecutedAt = b.pid, b.start, b.at
	s.log.Info().Int("rank", w.rank).Str("device", string(w.device)).Int("pid", b.pid).Msg("worker executed")
	s.sdk.admitEarly()
}

func (s *starter) executedAll() {
	s.facts.Execution.Done = true
	s.sdk.admitEarly()
}

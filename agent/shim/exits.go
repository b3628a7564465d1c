package shim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/sdk"
)

// reap collects what has ended. While a process is being executed it takes only the workers
// that it knows: a process that is reaped before it is identified can no longer be identified,
// and a worker's exit must not be lost before its birth is heard of.
func (s *shared) reap() {
	if !s.state.Executing() && !s.facts.Ahead.Executing {
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				return
			}
			if i := slices.IndexFunc(s.workers, func(w *worker) bool { return w.fact.PID == pid && w.runs() }); i >= 0 {
				s.exited(i, status)
			}
		}
	}
	for i, w := range s.workers {
		if !w.runs() {
			continue
		}
		var status unix.WaitStatus
		if pid, err := unix.Wait4(w.fact.PID, &status, unix.WNOHANG, nil); err == nil && pid == w.fact.PID {
			s.exited(i, status)
		}
	}
}

// exited takes in how a worker has ended.
func (s *shared) exited(local int, status unix.WaitStatus) {
	w := s.workers[local]
	exit := &record.Exit{Rank: w.rank, Code: status.ExitStatus()}
	if status.Signaled() {
		exit.Signal = int(status.Signal())
	}
	w.fact.Exit, w.fact.ExitedAt, w.fact.How = exit, time.Now(), describeExit(status)
	s.log.Info().Int("rank", w.rank).Int("code", exit.Code).Int("signal", exit.Signal).Msg("worker ended")
	if s.facts.Execution.Warm && (exit.Code == sdk.EarlyStatus || exit.Signal == sdk.EarlySignal) {
		w.fact.How = "it could not use what it had imported before its release"
		go warm.LearnForGood(s.order.LearnedFile) // on a disk that may hang
	}
	if limit, starved := s.containment.Starved(local); starved {
		w.fact.How, w.fact.OutOfMemory = describeStarved(status, limit), true
	}
}

func describeExit(status unix.WaitStatus) string {
	switch {
	case !status.Signaled():
		return fmt.Sprintf("exit status %d", status.ExitStatus())
	case status.Signal() == unix.SIGKILL:
		return "signal: killed, by the kernel for want of memory or by another process"
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

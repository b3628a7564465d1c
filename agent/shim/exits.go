package shim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/sdk"
)

// tailWait is how long a failure's report waits for the last lines of the log.
const tailWait = 250 * time.Millisecond

// reaper collects what has ended, and tells the failure of a worker. The loop owns it.
type reaper struct {
	*shared
	*reporter

	killer *killer

	exitedAt    time.Time      // of the last worker to end
	failing     *record.Failed // waits for the last words of its rank
	failingRank *worker
	failingBy   int64
	inHalt      bool // it came in a halt
}

// reap collects what has ended. While a process is being executed it takes only the workers
// that it knows: a process that is reaped before it is identified can no longer be identified,
// and a worker's exit must not be lost before its birth is heard of.
func (r *reaper) reap() {
	if r.phase != starting && !r.forking {
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				return
			}
			if i := slices.IndexFunc(r.workers, func(w *worker) bool { return w.PID == pid && w.runs() }); i >= 0 {
				r.exited(r.workers[i], status)
			}
		}
	}
	for _, w := range r.workers {
		if !w.runs() {
			continue
		}
		var status unix.WaitStatus
		if pid, err := unix.Wait4(w.PID, &status, unix.WNOHANG, nil); err == nil && pid == w.PID {
			r.exited(w, status)
		}
	}
}

func (r *reaper) exited(w *worker, status unix.WaitStatus) {
	w.exit = &record.Exit{Rank: w.Rank, Code: status.ExitStatus()}
	if status.Signaled() {
		w.exit.Signal = int(status.Signal())
	}
	r.exitedAt = time.Now()
	r.log.Info().Int("rank", w.Rank).Int("code", w.exit.Code).Int("signal", w.exit.Signal).Bool("told", w.told).Msg("worker ended")
	limit, starved := r.containment.starved(slices.Index(r.workers, w))
	early := r.report.Warm && (w.exit.Code == sdk.EarlyStatus || w.exit.Signal == sdk.EarlySignal)
	if early {
		go learnForGood(r.order.LearnedFile) // on a disk that may hang
	}
	if w.exit.Code == 0 || r.killer.why != "" || r.failing != nil && !starved {
		return
	}
	reason := describeExit(status)
	if early {
		reason = "it could not use what it had imported before its release"
	}
	if starved {
		reason = describeStarved(status, limit)
	}
	r.failing = &record.Failed{Kind: record.WorkerFailed, Reason: reason + r.leftBefore(), Rank: w.Rank, At: r.exitedAt, OutOfMemory: starved}
	r.failingRank, r.inHalt = w, r.wish.Halt != nil
	r.failingBy = Boottime() + int64(tailWait)
	if r.inHalt {
		return
	}
	r.killer.kill(fmt.Sprintf("rank %d failed: %s", w.Rank, reason))
}

// leftBefore says which rank here had ended well when another failed, as peers do in the
// exchange of gradients that it no longer comes to; "": none.
func (r *reaper) leftBefore() string {
	i := slices.IndexFunc(r.workers, func(w *worker) bool { return w.exit != nil && w.exit.Code == 0 && w.exit.Signal == 0 })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("; rank %d had ended with status 0 before: if there was more to train, ranks take unlike numbers of batches: "+
		"take those of bellows.Batches or bellows.MicroBatches, as many on every rank", r.workers[i].Rank)
}

// ranOut reports whether a worker's last lines say that its device or its machine had no
// memory left for it, in PyTorch's words, CUDA's, HIP's or XLA's.
func ranOut(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return slices.ContainsFunc(ranOutWords, func(words string) bool { return strings.Contains(line, words) })
	})
}

var ranOutWords = []string{
	"OutOfMemoryError", "CUDA out of memory", "HIP out of memory", "CUDA error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY",
	"RESOURCE_EXHAUSTED: Out of memory", "RESOURCE_EXHAUSTED: Failed to allocate", "DefaultCPUAllocator: can't allocate memory",
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

// stepFailure reports a worker's failure once its last words are read.
func (r *reaper) stepFailure(now int64) {
	if r.failing == nil {
		return
	}
	// Its peers often fail first, in the collective that it no longer comes to.
	w, unsaved := r.failingRank, slices.IndexFunc(r.workers, func(w *worker) bool { return w.unsaved != "" })
	if unsaved >= 0 {
		w = r.workers[unsaved]
	}
	if !w.silent() && now < r.failingBy {
		r.alarm.at(min(r.failingBy, now+5*firstPause))
		return
	}
	switch {
	case unsaved >= 0:
		r.blameDisk(w)
	case r.inHalt && !r.failing.OutOfMemory:
		// In a halt ranks stumble over each other's exits; only a disk that takes no save
		// and too little memory are news, and cost the save.
		r.failing = nil
		return
	}
	r.failing.LogTail = w.log.lastLines()
	r.failing.OutOfMemory = r.failing.OutOfMemory || slices.ContainsFunc(r.workers, func(w *worker) bool {
		return (w.Rank == r.failing.Rank || w.exit != nil && w.exit.Code != 0) && w.log != nil && ranOut(w.log.lastLines())
	})
	if r.report.Failed == nil {
		r.report.Failed, r.dirty = r.failing, true
	}
	r.failing = nil
}

// blameDisk makes a failure that of a save for which a worker's file system was to blame.
func (r *reaper) blameDisk(w *worker) {
	f, remedy := r.failing, "make room for"
	if w.unsavedFor == record.Transient {
		remedy = "look at the file system of"
	}
	f.Kind, f.Rank = w.unsavedFor, w.Rank
	f.Reason = record.Reason(fmt.Sprintf("%s: %s $BELLOWS_CHECKPOINT_DIR, %s (%s)", w.unsaved, remedy, r.order.Checkpoint, f.Reason))
}

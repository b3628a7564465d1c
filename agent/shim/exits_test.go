package shim

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
)

// The end of a worker is often heard of before its last message, which says that a disk was to
// blame: its failure waits for that, with a bound.
func TestAnEndIsHeardBeforeWhy(t *testing.T) {
	const exited = unix.WaitStatus(1 << 8)
	type rig struct {
		*reaper
		rank0, rank1 *worker
	}
	begin := func(t *testing.T) rig {
		t.Helper()
		a, err := newAlarm()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.timer.Close() })
		done := make(chan struct{})
		close(done)
		rank := func(n int) *worker {
			return &worker{Worker: record.Worker{Rank: n}, log: &workerLog{done: done}, link: &link{}}
		}
		x := rig{rank0: rank(0), rank1: rank(1)}
		sh := &shared{workers: []*worker{x.rank0, x.rank1}, containment: &containment{}, alarm: a, cancel: func() {}, phase: running}
		r := &reporter{shared: sh}
		x.reaper = &reaper{shared: sh, reporter: r, killer: &killer{shared: sh, reporter: r}}
		return x
	}
	noRoom := func(w *worker) {
		w.unsaved, w.unsavedFor, w.link = "save step 7: read-only file system", record.Transient, nil
	}
	kind := func(x rig) record.FailureKind {
		if x.report.Failed == nil {
			return ""
		}
		return x.report.Failed.Kind
	}

	t.Run("its message follows", func(t *testing.T) {
		x := begin(t)
		x.exited(x.rank0, exited)
		x.stepFailure(0)
		if kind(x) != "" {
			t.Fatalf("told at once: %+v", x.report.Failed)
		}
		noRoom(x.rank0)
		x.stepFailure(0)
		if kind(x) != record.Transient || !strings.Contains(x.report.Failed.Reason, "save step 7") || !strings.Contains(x.report.Failed.Reason, "exit status 1") {
			t.Errorf("%+v", x.report.Failed)
		}
	})
	t.Run("that of its peer does", func(t *testing.T) {
		x := begin(t)
		x.exited(x.rank1, exited)
		noRoom(x.rank0)
		x.stepFailure(0)
		if kind(x) != record.Transient || x.report.Failed.Rank != 0 {
			t.Errorf("%+v", x.report.Failed)
		}
	})
	t.Run("none follows", func(t *testing.T) {
		x := begin(t)
		x.exited(x.rank0, exited)
		x.stepFailure(x.failingBy)
		if kind(x) != record.WorkerFailed || x.report.Failed.Reason != "exit status 1" {
			t.Errorf("%+v", x.report.Failed)
		}
	})
	t.Run("another has ended well", func(t *testing.T) {
		x := begin(t)
		x.exited(x.rank1, 0)
		x.exited(x.rank0, exited)
		x.stepFailure(x.failingBy)
		if f := x.report.Failed; f == nil || f.Rank != 0 || !strings.HasPrefix(f.Reason, "exit status 1; rank 1 had ended with status 0 before") || !strings.Contains(f.Reason, "bellows.MicroBatches") {
			t.Errorf("%+v", f)
		}
	})
	t.Run("in a halt", func(t *testing.T) {
		x := begin(t)
		x.wish.Halt = &record.Halt{}
		x.exited(x.rank1, exited)
		x.exited(x.rank0, exited)
		noRoom(x.rank0)
		x.stepFailure(0)
		if kind(x) != record.Transient || x.killer.why != "" {
			t.Errorf("%+v, killed %q", x.report.Failed, x.killer.why)
		}
	})
	t.Run("in a halt without news", func(t *testing.T) {
		x := begin(t)
		x.wish.Halt = &record.Halt{}
		x.exited(x.rank1, exited)
		x.rank1.link = nil
		x.stepFailure(0)
		if x.failing != nil || kind(x) != "" {
			t.Errorf("%+v", x.report.Failed)
		}
	})
}

// A process that runs ahead may end before the shim has read its start time, without which it cannot be named.
func TestAProcessIsNotReapedBeforeItIsIdentified(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has ended", func() bool {
		s, err := readStat(pid)
		return err != nil || !s.lives()
	})
	sh := &shared{phase: preparing, forking: true}
	r := &reaper{shared: sh, reporter: &reporter{shared: sh}}
	r.reap()
	if _, err := identify(pid); err != nil {
		t.Error(err)
	}
	sh.forking = false
	r.reap()
	if _, err := identify(pid); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

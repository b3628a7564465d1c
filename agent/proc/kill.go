package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// Bounds of the pauses between two looks for processes whose end no signal announces. They begin short and double.
const (
	FirstPause = time.Millisecond
	LastPause  = 100 * time.Millisecond
)

// Kill sends SIGKILL to exactly this process: a pid that has been reused since is left alone.
func (s Stat) Kill() error {
	fd, err := unix.PidfdOpen(s.PID, 0)
	send := func() error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case errors.Is(err, unix.ENOSYS): // kernels before 5.3: a bare pid, just looked at
		send = func() error { return unix.Kill(s.PID, unix.SIGKILL) }
	case err != nil:
		return fmt.Errorf("kill process %d: %w", s.PID, err)
	default:
		defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	}
	now, err := ReadStat(s.PID)
	if err != nil || now.Start != s.Start {
		return nil // it is gone
	}
	if err := send(); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", s.PID, err)
	}
	return nil
}

// KillTree ends a process that is not needed, and what it has started.
func KillTree(pid int) {
	all, err := All()
	if err != nil {
		return // the end of the run finds it
	}
	root := map[int]bool{pid: true}
	_ = KillEach(append(Living([]int{pid}), FamilyOf(all).Descendants(root)...))
}

// OnlyKillPending reports whether all that is left is dead but for what the kernel is doing
// for it: SIGKILL is pending for each thread, so that none returns from the kernel,
// and none can fork. list finds what is left once more: what was forked before its
// parent was killed shows by then.
func OnlyKillPending(left []Stat, list func() ([]Stat, error)) bool {
	for _, s := range left {
		if !KillPending(s.PID) {
			return false
		}
	}
	again, err := list()
	return err == nil && slices.Equal(Identities(again), Identities(left))
}

// Identities are the lasting names of processes, but for the boot.
func Identities(list []Stat) []run.Process {
	out := make([]run.Process, len(list))
	for i, s := range list {
		out[i] = run.Process{PID: s.PID, StartTime: s.Start}
	}
	return out
}

// KillPending reports whether each thread of a process has SIGKILL pending or has
// ended. What cannot be read is not; a process that is gone is.
func KillPending(pid int) bool {
	dir := Root.File(pid, "task")
	threads, err := os.ReadDir(dir)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	for _, t := range threads {
		b, err := os.ReadFile(dir + "/" + t.Name() + "/status")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil || !ends(string(b)) {
			return false
		}
	}
	return true
}

// ends reads the status of a thread. A signal that the kernel sends to all threads
// of a process, as SIGKILL is, is in the set of each.
func ends(status string) bool {
	const kill = 1 << (unix.SIGKILL - 1)
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return true
			}
		case "SigPnd":
			set, err := strconv.ParseUint(value, 16, 64)
			return err == nil && set&kill != 0
		}
	}
	return false
}

// KillEach sends SIGKILL once to each of the processes, and waits for none of them to end.
func KillEach(all []Stat) error {
	var err error
	for _, p := range all {
		err = errors.Join(err, p.Kill())
	}
	return err
}

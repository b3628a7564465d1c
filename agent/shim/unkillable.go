package shim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
)

// Unkillable is the error of a sweep that processes have survived.
type Unkillable struct {
	PIDs []int
	// KillPending: none of them ever runs code of its own again, and there are no others.
	KillPending bool
	names       string
}

func (u *Unkillable) Error() string {
	return fmt.Sprintf("UNKILLABLE %s: reboot the node to get its devices back", u.names)
}

// onlyKillPending reports whether all that is left is dead but for what the kernel is doing
// for it: SIGKILL is pending for each thread, so that none returns from the kernel,
// and none can fork. list finds what is left once more: what was forked before its
// parent was killed shows by then.
func onlyKillPending(left []stat, list func() ([]stat, error)) bool {
	for _, s := range left {
		if !killPending(s.pid) {
			return false
		}
	}
	again, err := list()
	return err == nil && slices.Equal(identities(again), identities(left))
}

func identities(list []stat) []run.Process {
	out := make([]run.Process, len(list))
	for i, s := range list {
		out[i] = run.Process{PID: s.pid, StartTime: s.start}
	}
	return out
}

// killPending reports whether each thread of a process has SIGKILL pending or has
// ended. What cannot be read is not; a process that is gone is.
func killPending(pid int) bool {
	dir := proc.file(pid, "task")
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

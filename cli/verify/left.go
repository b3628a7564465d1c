package verify

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// A world has ended when nothing of it lives: what a worker has left is killed with its group, and holds its files,
// locks, ports and device until it is gone. The next world would find them taken.

// leftPause is the time between two looks at what was killed.
const leftPause = 2 * time.Millisecond

// endGroup kills what a worker that has ended has left in its group, and waits until it is gone. The error names what
// does not end within killedWithin.
func endGroup(group int) error {
	return untilGone(func() error { return syscall.Kill(-group, syscall.SIGKILL) }, func() []string { return living(group) })
}

// untilGone kills a group until nothing of it lives.
func untilGone(kill func() error, living func() []string) error {
	end := time.Now().Add(killedWithin)
	for !errors.Is(kill(), syscall.ESRCH) { // nearly always it is empty
		alive := living()
		switch {
		case len(alive) == 0:
			return nil // zombies, which are another's to wait for
		case time.Now().After(end):
			return fmt.Errorf("%s after it was killed, what it has left lives: %s", killedWithin, strings.Join(alive, ", "))
		}
		time.Sleep(leftPause)
	}
	return nil
}

// living names the processes of a group that have not ended.
func living(group int) (alive []string) {
	all, _ := procfs.AllProcs() // without /proc nothing can be named
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PGRP == group && lives(stat) {
			alive = append(alive, fmt.Sprintf("process %d (%s)", p.PID, stat.Comm))
		}
	}
	return alive
}

// lives reports whether a process has not ended. If only its first thread has ended, the process is shown as a zombie too.
func lives(stat procfs.ProcStat) bool {
	return stat.State != "X" && (stat.State != "Z" || stat.NumThreads > 1)
}

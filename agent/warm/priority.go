package warm

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/proc"
)

// CalmFor is how long a process runs ahead with what other processes leave of the processors. It is
// then one of them, so that a rescale does not wait in vain for it on a machine that is always busy.
const CalmFor = 15 * time.Second

// calmNice is the priority of what is calm.
const calmNice = 19

// calm lets all others go before what runs ahead, as far as that can be taken back: by the priority of its
// session, where the kernel shares out processors by sessions, and by its own, which only root may raise again.
func calm(pid int) {
	_ = setAutogroup(pid, calmNice) // on many machines there is no such thing
	if !proc.May(unix.CAP_SYS_NICE) {
		return
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, pid, calmNice) // and so of what it starts from here on
	for _, each := range proc.Tree(pid) {
		_ = unix.Setpriority(unix.PRIO_PROCESS, each, calmNice)
	}
}

// Hurry gives a process, and what it has started, the priority that this one has: each of their threads.
func Hurry(pid int) error {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return fmt.Errorf("read the priority of the shim: %w", err)
	}
	for _, each := range proc.Tree(pid) {
		_ = setAutogroup(each, 0) // workers have sessions of their own, which begin with 0
		if errRaise := raiseThreads(each, own); each == pid || !errors.Is(errRaise, os.ErrNotExist) {
			err = errors.Join(err, errRaise)
		}
	}
	if err != nil {
		return fmt.Errorf("give what ran ahead the priority of a worker: %w", err)
	}
	return nil
}

// raiseThreads gives each thread of a process a priority, as the kernel tells it. What one starts meanwhile has its own.
func raiseThreads(pid, priority int) error {
	const zero = 20 // the kernel's number for a priority of 0
	for again := true; again; {
		again = false
		tasks, err := os.ReadDir(proc.Root.File(pid, "task"))
		if err != nil {
			return err
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				return err
			}
			now, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
			if err == nil && now != priority {
				again = true // it may have started another before
				err = unix.Setpriority(unix.PRIO_PROCESS, tid, zero-priority)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // a thread that has ended
				return err
			}
		}
	}
	return nil
}

// setAutogroup sets the priority of a process's session.
func setAutogroup(pid, nice int) error {
	return os.WriteFile(proc.Root.File(pid, "autogroup"), []byte(strconv.Itoa(nice)), 0)
}

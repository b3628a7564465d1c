package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// heldVariable tells a shim the pid of its holder.
const heldVariable = "BELLOWS_SHIM_HOLDER"

// neverBegan is the exit status of a program that has failed: a shim's, for which Serve has
// returned an error. Panics and signals have others.
const neverBegan = 1

// Ended is how a shim has ended that this process held.
type Ended int

func (e Ended) Error() string { return fmt.Sprintf("the shim ended with status %d", int(e)) }

// hold starts the shim proper as a child, from the same command line, and waits
// for its end. It is there for the moment in which a shim dies before its workers:
// these die with it, but what they have started does not, and the agent, which
// would sweep, may have been killed by the same hand. All that is then left becomes
// this process's by descent, because it is a subreaper, and is killed at once: a
// run has one shim in its life, and nothing of it may go on without.
//
// A shim that ends with neverBegan has executed no worker, perhaps because another shim
// hosts the run already: then only what descends from this process is killed.
//
// It owns nothing else, knows only whose run it is, and does nothing while the shim lives. If it
// is killed itself the shim goes on alone.
func hold(dir string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	owner := ownerOf(dir, runRecord{})
	shim, err := startHeld()
	if err != nil {
		return fmt.Errorf("start the shim proper: %w", err)
	}
	// The shim hears them as well, and decides. Notify and not Ignore: what is
	// ignored stays ignored in children.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	defer signal.Stop(signals)
	debug.FreeOSMemory() // it will need no more for days
	status := waitFor(shim)
	switch {
	case status == neverBegan:
		endDescendants()
	case status != 0 || hasChildren():
		endOrphans(dir, owner)
	}
	if status != 0 {
		return Ended(status)
	}
	return nil
}

// startHeld starts this program once more, with all that was given to it, and
// returns the pid.
func startHeld() (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(exe, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), heldVariable+"="+strconv.Itoa(os.Getpid()))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if fd, err := strconv.Atoi(os.Getenv(readyVariable)); err == nil {
		ready := os.NewFile(uintptr(fd), "ready pipe")
		defer ready.Close() //nolint:errcheck // or the reader would not notice that the shim closes its own
		cmd.ExtraFiles = []*os.File{ready}
		cmd.Env = append(cmd.Env, readyVariable+"=3")
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	return pid, cmd.Process.Release() // it is reaped with all other children
}

// waitFor reaps children until the shim was among them, and returns its status;
// as shells have it, 128 and the signal's number if one has ended it.
func waitFor(shim int) int {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return 1 // it cannot be: the shim is a child
		case err != nil || pid != shim:
		case status.Signaled():
			return 128 + int(status.Signal())
		default:
			return status.ExitStatus()
		}
	}
}

// endOrphans kills what a dead shim has left until nothing is. Only the kernel is
// asked, and none of the run's files: a disk may hang.
func endOrphans(dir string, owner *uint32) {
	s := &sweeper{dir: dir, owner: owner, under: os.Getpid()}
	_ = s.killListed() // what could not be killed is tried again
	repeat(func() (done bool, longest time.Duration) {
		reap()
		left, err := s.kill()
		return err == nil && len(left) == 0 && s.emptied() && !hasChildren(), time.Second
	})
	_ = s.removeGroups() // the agent's sweep tells what is in the way
}

// endDescendants kills what descends from this process until nothing does.
func endDescendants() {
	repeat(func() (done bool, longest time.Duration) {
		if reap(); !hasChildren() {
			return true, 0
		}
		if l, err := observed.listing(); err == nil {
			_ = killAll(nil, l.family.descendants(map[int]bool{os.Getpid(): true})) // tried again
		}
		return false, time.Second
	})
}

// reap takes note of children that have ended.
func reap() {
	for pid := 1; pid > 0; {
		pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
	}
}

// emptied reports whether nothing is in the run's groups.
func (s *sweeper) emptied() bool {
	return !slices.ContainsFunc(s.groups, func(g group) bool {
		_, inside, err := g.look()
		return inside || err != nil
	})
}

// holderPID is the pid of the process that holds this one; 0 if none does any more.
func holderPID() int {
	pid, err := strconv.Atoi(os.Getenv(heldVariable))
	if err != nil || pid != os.Getppid() {
		return 0
	}
	return pid
}

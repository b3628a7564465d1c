package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/contain"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/agent/sweep"
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
	if err := contain.Subreaper(); err != nil {
		return err
	}
	owner := rundir.OwnerOf(dir, rundir.Record{})
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
		sweep.Descendants()
	case status != 0 || proc.HasChildren():
		sweep.Orphans(dir, owner)
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

// holderPID is the pid of the process that holds this one; 0 if none does any more.
func holderPID() int {
	pid, err := strconv.Atoi(os.Getenv(heldVariable))
	if err != nil || pid != os.Getppid() {
		return 0
	}
	return pid
}

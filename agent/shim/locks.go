package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

const (
	// lockWait is how long a device's lock may stay with another process. The
	// leader gives a device away only after its last user's end was acknowledged,
	// so anything longer is a fault and not a hand-over.
	lockWait = 30 * time.Second
	lockPoll = 10 * time.Millisecond
)

// locks are the flocks of this run's devices. The shim alone holds them: what a
// worker has, it can pass on to any process of the machine, which would then keep
// the device; and it could write to it. So that a device stays taken when the shim
// dies and something of its run does not, each lock file names the run, and who
// takes the lock looks for what is left of that one first.
type locks struct {
	files []*os.File
}

func lockPath(dir string, device cluster.DeviceID) string {
	return filepath.Join(dir, strings.ReplaceAll(string(device), "/", "_")+".lock")
}

// takeLocks takes the locks of all devices, in the order of their names so that
// two shims never wait for each other. It tells waiting whenever it has to.
func takeLocks(ctx context.Context, o run.Order, run string, waiting func(string)) (*locks, error) {
	if err := os.MkdirAll(o.LockDir, 0o755); err != nil {
		return nil, fmt.Errorf("make lock_dir: %w", err)
	}
	if err := checkLockDir(o.LockDir); err != nil {
		return nil, fmt.Errorf("lock_dir %s: %w", o.LockDir, err)
	}
	me := holder{Job: o.World.Job, Generation: o.World.Generation, Run: run, Shim: os.Getpid()}
	switch rec, err := readRecord(run); {
	case err == nil:
		me.Record = &rec
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("lock devices: %w", err)
	}
	member, _, _ := o.World.Member(o.Node)
	l := &locks{}
	for _, device := range slices.Sorted(slices.Values(member.Devices)) {
		me.Device = device
		t := taker{path: lockPath(o.LockDir, device), me: me, waiting: waiting, who: "the guard of " + o.LockDir}
		f, err := t.take(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock device %s: %w", device, err), l.close())
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// checkLockDir refuses a directory in which another user could replace the lock
// files: any user may make one below /run/lock, and be first.
func checkLockDir(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	const others = 0o002
	switch {
	case !ok || stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to another user (uid %d): remove it, or give the agent another --lock-dir", stat.Uid)
	case info.Mode().Perm()&others != 0 && info.Mode()&os.ModeSticky == 0:
		return fmt.Errorf("everybody may replace what is in it (mode %04o): chmod o-w", info.Mode().Perm())
	}
	return nil
}

// taker waits for one device's lock.
type taker struct {
	path    string
	me      holder
	waiting func(string)

	// gone is the run of which nothing is left, though the lock file names it.
	gone  string
	held  bool      // at the last try
	who   string    // has the device
	asked time.Time // when that was looked for
}

func (t *taker) take(ctx context.Context) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		f, was, err := t.try()
		busy := errors.Is(err, errBusy)
		if f != nil || err != nil && !busy {
			return f, err
		}
		if !busy && time.Since(t.asked) > time.Second { // looking through all processes is not cheap
			t.asked = time.Now()
			before := t.gone
			if err = t.look(was); err != nil {
				return nil, err
			}
			if t.gone != before {
				continue
			}
			t.waiting("device lock " + t.path + " is held by " + t.who)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("held by %s: end these processes, or cordon the node", t.who)
		case <-poll.C:
		}
	}
}

// try takes the lock if it is free and nothing is left of the run that the file
// names; else it returns who had it. Whatever is done to a lock file's name or
// content is done under the directory's guard, so that no process has a lock of a
// file that is not at its path any more.
func (t *taker) try() (*os.File, holder, error) {
	release, err := guard(filepath.Dir(t.path))
	if err != nil {
		return nil, holder{}, err
	}
	defer release()
	// Who can open it can lock it, and so keep everybody else from the device.
	f, err := os.OpenFile(t.path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, holder{}, err
	}
	if err = f.Chmod(0o600); err != nil { // of one that an earlier version has made
		return nil, holder{}, errors.Join(err, f.Close())
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	was := readHolder(f)
	t.held = errors.Is(err, unix.EWOULDBLOCK)
	switch {
	case t.held:
		return nil, was, unlock(f)
	case err != nil:
		return nil, was, errors.Join(err, unlock(f))
	case was.Run != "" && was.Run != t.me.Run && was.Run != t.gone:
		return nil, was, unlock(f)
	}
	if err = sign(f, t.me); err != nil { // a file system that cannot write is no place for locks
		return nil, was, errors.Join(fmt.Errorf("sign the lock: %w", err), unlock(f))
	}
	return f, was, nil
}

// look finds out what keeps the device: processes of the run that its lock file
// names, or those that have the lock open. A lock that is held though nothing of its
// run lives is cleared.
func (t *taker) look(was holder) error {
	left, known, err := was.left()
	t.who = was.String()
	switch {
	case err != nil:
		t.who += fmt.Sprintf(", of which it cannot be told what is left: %v", err)
		return nil
	case left != "":
		t.who += ": " + left
		return nil
	case !t.held:
		t.gone = was.Run
		return nil
	}
	if by := namesOf(openers(t.path)); by != "" {
		t.who += ": " + by
	}
	if !known {
		return nil
	}
	t.gone = was.Run
	return notBusy(clearLock(t.path, was.Run, false))
}

// close gives up the locks; the files name the run still. It does not unlock: if
// anything else has one of our descriptors, that is to be found out.
func (l *locks) close() error {
	var err error
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// lockFiles are those of the devices of a run.
type lockFiles struct {
	run   string
	paths []string
}

func locksOf(o run.Order, run string) lockFiles {
	l := lockFiles{run: run}
	member, _, _ := o.World.Member(o.Node)
	for _, device := range member.Devices {
		l.paths = append(l.paths, lockPath(o.LockDir, device))
	}
	return l
}

// allLocks are all that there are, for a run of which nothing else is known, not
// even its devices: it is named in those that it has.
func allLocks(lockDir, run string) (lockFiles, error) {
	entries, err := os.ReadDir(lockDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return lockFiles{}, fmt.Errorf("look for the run's device locks: %w", err)
	}
	l := lockFiles{run: run}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") {
			l.paths = append(l.paths, filepath.Join(lockDir, e.Name()))
		}
	}
	return l, nil
}

// giveBack takes the run's name off its devices' lock files, once nothing is left
// of the run, and returns those that are held all the same. A lock that its next
// user has taken already is no longer this run's business.
func (l lockFiles) giveBack() (held []string, err error) {
	for _, path := range l.paths {
		f, errOpen := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if errOpen != nil {
			continue // it was never taken
		}
		errLock := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		was := readHolder(f)
		switch {
		case errors.Is(errLock, unix.EWOULDBLOCK) && (was.Run == "" || was.Run == l.run):
			held = append(held, path)
		case errLock == nil && was.Run == l.run:
			err = errors.Join(err, f.Truncate(0))
		}
		err = errors.Join(err, unlock(f))
	}
	return held, err
}

// clear makes way for the next users of the run's devices where their locks are held
// by processes that are none of the run's; the caller looks again whether they are.
// sure: nothing of the run lives.
func (l lockFiles) clear(sure bool) error {
	var err error
	for _, path := range l.paths {
		err = errors.Join(err, notBusy(clearLock(path, l.run, sure)))
	}
	return err
}

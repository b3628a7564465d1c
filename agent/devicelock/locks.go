package devicelock

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

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/cluster"
)

const (
	// lockWait is how long a device's lock may stay with another process. The
	// leader gives a device away only after its last user's end was acknowledged,
	// so anything longer is a fault and not a hand-over.
	lockWait = 30 * time.Second
	lockPoll = 10 * time.Millisecond
)

// Locks are the flocks of this run's devices. The shim alone holds them: what a
// worker has, it can pass on to any process of the machine, which would then keep
// the device; and it could write to it. So that a device stays taken when the shim
// dies and something of its run does not, each lock file names the run, and who
// takes the lock looks for what is left of that one first.
type Locks struct {
	Files []*os.File
}

// Path is where the lock file of a device is in the directory of locks.
func Path(dir string, device cluster.DeviceID) string {
	return filepath.Join(dir, strings.ReplaceAll(string(device), "/", "_")+".lock")
}

// Request asks for the locks of a run's devices.
type Request struct {
	Dir     string // where the locks lie
	Devices []cluster.DeviceID
	Claim   Claim // what each lock file is to say, but for its device
	// Left says what lives of the run that a lock file names; "" = nothing. It is not
	// known of one that has left no trace of itself.
	Left    func(Claim) (text string, known bool, err error)
	Waiting func(why string) // is called whenever there is something to wait for
}

// Take takes the locks of all devices, in the order of their names so that
// two shims never wait for each other.
func Take(ctx context.Context, r Request) (*Locks, error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make lock_dir: %w", err)
	}
	if err := checkLockDir(r.Dir); err != nil {
		return nil, fmt.Errorf("lock_dir %s: %w", r.Dir, err)
	}
	l := &Locks{}
	for _, device := range slices.Sorted(slices.Values(r.Devices)) {
		t := taker{Request: r, path: Path(r.Dir, device), who: "the guard of " + r.Dir}
		t.Claim.Device = device
		f, err := t.take(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock device %s: %w", device, err), l.Close())
		}
		l.Files = append(l.Files, f)
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
	Request
	path string

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
			t.Waiting("device lock " + t.path + " is held by " + t.who)
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
func (t *taker) try() (*os.File, Claim, error) {
	release, err := guard(filepath.Dir(t.path))
	if err != nil {
		return nil, Claim{}, err
	}
	defer release()
	// Who can open it can lock it, and so keep everybody else from the device.
	f, err := os.OpenFile(t.path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, Claim{}, err
	}
	if err = f.Chmod(0o600); err != nil { // of one that an earlier version has made
		return nil, Claim{}, errors.Join(err, f.Close())
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	was := readClaim(f)
	t.held = errors.Is(err, unix.EWOULDBLOCK)
	switch {
	case t.held:
		return nil, was, unlock(f)
	case err != nil:
		return nil, was, errors.Join(err, unlock(f))
	case was.Run != "" && was.Run != t.Claim.Run && was.Run != t.gone:
		return nil, was, unlock(f)
	}
	if err = sign(f, t.Claim); err != nil { // a file system that cannot write is no place for locks
		return nil, was, errors.Join(fmt.Errorf("sign the lock: %w", err), unlock(f))
	}
	return f, was, nil
}

// look finds out what keeps the device: processes of the run that its lock file
// names, or those that have the lock open. A lock that is held though nothing of its
// run lives is cleared.
func (t *taker) look(was Claim) error {
	left, known, err := t.Left(was)
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
	if by := proc.Names(proc.Openers(t.path)); by != "" {
		t.who += ": " + by
	}
	if !known {
		return nil
	}
	t.gone = was.Run
	return notBusy(clearLock(t.path, was.Run, false))
}

// Close gives up the locks; the files name the run still. It does not unlock: if
// anything else has one of our descriptors, that is to be found out.
func (l *Locks) Close() error {
	var err error
	for _, f := range l.Files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// Files are those of the devices of a run.
type Files struct {
	run   string
	Paths []string
}

// Of are the lock files of a run's devices.
func Of(dir string, devices []cluster.DeviceID, run string) Files {
	l := Files{run: run}
	for _, device := range devices {
		l.Paths = append(l.Paths, Path(dir, device))
	}
	return l
}

// All are all that there are in a directory, for a run of which nothing else is known, not
// even its devices: it is named in those that it has.
func All(dir, run string) (Files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Files{}, fmt.Errorf("look for the run's device locks: %w", err)
	}
	l := Files{run: run}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") {
			l.Paths = append(l.Paths, filepath.Join(dir, e.Name()))
		}
	}
	return l, nil
}

// GiveBack takes the run's name off its devices' lock files, once nothing is left
// of the run, and returns those that are held all the same. A lock that its next
// user has taken already is no longer this run's business.
func (l Files) GiveBack() (held []string, err error) {
	for _, path := range l.Paths {
		f, errOpen := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if errOpen != nil {
			continue // it was never taken
		}
		errLock := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		was := readClaim(f)
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

// Clear makes way for the next users of the run's devices where their locks are held
// by processes that are none of the run's; the caller looks again whether they are.
// sure: nothing of the run lives.
func (l Files) Clear(sure bool) error {
	var err error
	for _, path := range l.Paths {
		err = errors.Join(err, notBusy(clearLock(path, l.run, sure)))
	}
	return err
}

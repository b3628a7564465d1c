package devicelock

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
)

const (
	// guardFile is locked for an instant by each process that changes a lock file's name or content.
	guardFile = "guard"
	// OldSuffix ends the name of a lock file that was cleared away while it was held.
	OldSuffix = ".old"
	// maxClaim is more than what a lock file says ever takes.
	maxClaim = 1 << 16
)

// Claim is what a lock file says about who has taken the lock, as long as
// anything may be left of it.
type Claim struct {
	Device     cluster.DeviceID   `json:"device,omitempty"`
	Job        cluster.JobID      `json:"job"`
	Generation cluster.Generation `json:"generation"`
	Run        string             `json:"run"` // its run directory
	Shim       int                `json:"shim"`
	// Record says where to find what is left of the run. Shims of earlier versions
	// have written none; their workers hold the lock themselves.
	Record *rundir.Record `json:"record,omitempty"`
}

func (c Claim) String() string {
	if c.Job == "" {
		return "an unknown process"
	}
	return fmt.Sprintf("%s generation %d, whose shim was process %d", c.Job, c.Generation, c.Shim)
}

// readClaim reads a lock file; one that says nothing has a zero claim.
func readClaim(f *os.File) Claim {
	var c Claim
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxClaim))
	if err != nil || json.Unmarshal(b, &c) != nil {
		return Claim{}
	}
	return c
}

// sign writes who holds the lock. A shim that dies half-way has executed nothing yet.
func sign(f *os.File, c Claim) error {
	b, err := json.Marshal(c)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	return err
}

// errBusy: another process changes lock files at this moment.
var errBusy = errors.New("another process changes the device locks")

func notBusy(err error) error {
	if errors.Is(err, errBusy) {
		return nil
	}
	return err
}

// guard locks the directory of locks against others who change what is in it.
func guard(dir string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, guardFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("guard device locks: %w", err)
	}
	switch err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return func() { _ = unlock(f) }, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = errBusy
	}
	return nil, errors.Join(err, f.Close())
}

// unlock gives a lock up, and closes its file. It unlocks by itself: a process that
// is just being started has a copy of each file until it executes its program, and
// would keep the lock for as long.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// clearLock takes a lock file of a run, of which nothing lives, out of the way of
// the device's next user, if it is held all the same. The holder keeps a lock of a
// file that says nothing about the device any more. sure: nothing of the run lives;
// otherwise that was only looked for, and a worker that holds the lock itself, as
// those of earlier versions did, may not have been found.
func clearLock(path, run string, sure bool) error {
	release, err := guard(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer release()
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("clear device lock: %w", err)
	}
	defer func() { _ = unlock(f) }()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	was := readClaim(f)
	if !errors.Is(err, unix.EWOULDBLOCK) || was.Run != "" && was.Run != run || !sure && was.Record == nil {
		return nil
	}
	old := fmt.Sprintf("%s.%d-%d%s", path, os.Getpid(), proc.Boottime(), OldSuffix)
	if err = os.Rename(path, old); err != nil {
		return fmt.Errorf("clear device lock: %w", err)
	}
	return nil
}

// OldLock is a device's lock that was still held when nothing of its run lived any
// more, and that was cleared away.
type OldLock struct {
	Device     cluster.DeviceID
	Job        cluster.JobID
	Generation cluster.Generation
	// Holders are those who have it open, as far as the system shows them.
	Holders []Holder
}

// Holder is a process that has a lock open.
type Holder struct {
	PID     int
	Command string
	UID     uint32
}

// OldLocks lists the locks that were cleared away and are held still; those that
// are no longer are removed. Those of other users' agents are left to them.
func OldLocks(dir string) ([]OldLock, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list device locks: %w", err)
	}
	var all []OldLock
	var faults []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), OldSuffix) {
			continue
		}
		o, held, err := readOldLock(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, os.ErrPermission) {
			faults = append(faults, fmt.Errorf("look at an old device lock: %w", err))
		} else if held {
			all = append(all, o)
		}
	}
	return all, errors.Join(faults...)
}

func readOldLock(path string) (o OldLock, held bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return o, false, nil // another agent of this machine was faster
	} else if err != nil {
		return o, false, err
	}
	defer func() { _ = unlock(f) }()
	switch err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return o, false, err
	case !errors.Is(err, unix.EWOULDBLOCK):
		return o, false, err
	}
	was := readClaim(f)
	name, _, _ := strings.Cut(filepath.Base(path), ".lock.") // of what an earlier version has written
	o = OldLock{Device: cmp.Or(was.Device, cluster.DeviceID(name)), Job: was.Job, Generation: was.Generation}
	for _, s := range proc.Openers(path) {
		if seen, ok := proc.Inspect(s.PID); ok {
			o.Holders = append(o.Holders, Holder{PID: s.PID, Command: seen.Command, UID: seen.UID})
		}
	}
	return o, true, nil
}

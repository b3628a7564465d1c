package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

const (
	// lockWait is how long a device's lock may stay with somebody else. The
	// leader gives a device away only after its last user's end was acknowledged,
	// so anything longer is a fault and not a hand-over.
	lockWait = 30 * time.Second
	lockPoll = 10 * time.Millisecond
)

// locks are the flocks of this run's devices. Every worker inherits the
// descriptors: a lock is free when the last process that has one is gone.
type locks struct {
	files []*os.File
	run   string // the run directory: who we are in the lock files
}

// holder is what a lock file says about who took the lock last.
type holder struct {
	Job        cluster.JobID      `json:"job"`
	Generation cluster.Generation `json:"generation"`
	Run        string             `json:"run"`
	Shim       int                `json:"shim"`
}

func (h holder) String() string {
	return fmt.Sprintf("%s generation %d, whose shim was process %d", h.Job, h.Generation, h.Shim)
}

func lockPath(dir string, device cluster.DeviceID) string {
	return filepath.Join(dir, strings.ReplaceAll(string(device), "/", "_")+".lock")
}

// takeLocks takes the locks of all devices, in the order of their names so that
// two shims never wait for each other. It tells waiting whenever it has to.
func takeLocks(ctx context.Context, o Order, run string, waiting func(string)) (*locks, error) {
	if err := os.MkdirAll(o.LockDir, 0o755); err != nil {
		return nil, fmt.Errorf("make lock_dir: %w", err)
	}
	if err := checkLockDir(o.LockDir); err != nil {
		return nil, fmt.Errorf("lock_dir %s: %w", o.LockDir, err)
	}
	member, _, _ := o.World.Member(o.Node)
	l := &locks{run: run}
	me := holder{Job: o.World.Job, Generation: o.World.Generation, Run: run, Shim: os.Getpid()}
	for _, device := range slices.Sorted(slices.Values(member.Devices)) {
		f, err := takeLock(ctx, lockPath(o.LockDir, device), me, waiting)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock device %s: %w", device, err), l.close())
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// checkLockDir refuses a directory in which somebody else could put other files in
// the locks' places: everybody may make one below /run/lock, and be first.
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

func takeLock(ctx context.Context, path string, me holder, waiting func(string)) (*os.File, error) {
	// Who can open it can lock it, and so keep everybody else from the device.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err = f.Chmod(0o600); err != nil { // of one that an earlier version has made
		return nil, errors.Join(err, f.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	who, asked := "", time.Time{}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(err, f.Close())
		}
		if time.Since(asked) > time.Second { // looking through all processes is not cheap
			who, asked = describeHolder(f), time.Now()
			waiting("device lock " + path + " is held by " + who)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("held by %s: end these processes, or cordon the node", who), f.Close())
		case <-poll.C:
		}
	}
	b, err := json.Marshal(me)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err != nil { // for people only, but a file system that cannot write is no place for locks
		return nil, errors.Join(fmt.Errorf("sign the lock: %w", err), f.Close())
	}
	return f, nil
}

// describeHolder says who took the lock and which processes still have it open.
func describeHolder(f *os.File) string {
	var h holder
	who := "an unknown process"
	b := make([]byte, 4096)
	if n, _ := f.ReadAt(b, 0); json.Unmarshal(b[:n], &h) == nil && h.Job != "" {
		who = h.String()
	}
	if pids := openers(f.Name()); len(pids) > 0 {
		who += " (open in " + strings.Join(pids, ", ") + ")"
	}
	return who
}

// openers names the processes other than this one that have the file open, as far as we may see.
func openers(path string) []string {
	all, err := processes()
	if err != nil {
		return nil
	}
	var found []string
	for _, s := range all {
		if s.pid == os.Getpid() {
			continue
		}
		dir := "/proc/" + strconv.Itoa(s.pid) + "/fd"
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
			to, err := os.Readlink(filepath.Join(dir, fd.Name()))
			return err == nil && to == path
		}) {
			found = append(found, s.String())
		}
	}
	return found
}

// fds are the descriptors for a worker to inherit.
func (l *locks) fds() []uintptr {
	var fds []uintptr
	for _, f := range l.files {
		fds = append(fds, f.Fd())
	}
	return fds
}

// close gives up this process's share of the locks. It never unlocks: a flock
// belongs to all that inherited it, and LOCK_UN would take it from them too.
func (l *locks) close() error {
	var err error
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// heldStill returns the lock files that somebody of the run still holds. A lock
// that its next user has taken already is no longer this run's business.
func heldStill(o Order, run string) []string {
	member, _, _ := o.World.Member(o.Node)
	var held []string
	for _, device := range member.Devices {
		path := lockPath(o.LockDir, device)
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
			var h holder
			if err := readJSON(path, &h); err != nil || h.Run == run {
				held = append(held, path+": "+describeHolder(f))
			}
		}
		_ = f.Close() // which drops the shared lock again
	}
	return held
}

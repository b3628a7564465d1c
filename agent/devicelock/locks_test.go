package devicelock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
)

// lockRequestIn asks for one device's lock, for a run; nothing lives of any other.
func lockRequestIn(dir, run string) Request {
	return Request{
		Dir: dir, Devices: []cluster.DeviceID{"d0"}, Claim: Claim{Job: "j", Generation: 1, Run: run},
		Left: func(Claim) (string, bool, error) { return "", true, nil }, Waiting: func(string) {},
	}
}

// Any user could lock a file that he can open, and no job would get the device.
func TestOtherUsersCannotOpenALock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	for _, before := range []os.FileMode{0, 0o644} { // that of an earlier version's
		if before != 0 {
			if err := os.Chmod(Path(dir, "d0"), before); err != nil {
				t.Fatal(err)
			}
		}
		l, err := Take(t.Context(), lockRequestIn(dir, t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		if err = l.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(Path(dir, "d0"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("a lock of mode %v, %v", info.Mode(), err)
		}
	}
}

// /run/lock is everybody's: who makes a directory there first must not get to
// decide what the locks in it are.
func TestLockDirOfOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	take := func() error {
		l, err := Take(t.Context(), lockRequestIn(dir, t.TempDir()))
		if err != nil {
			return err
		}
		return l.Close()
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := take(); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("writable for everybody: %v", err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := take(); err != nil {
		t.Errorf("where no user may replace others' files: %v", err)
	}
	if os.Geteuid() != 0 {
		return // only root can give it away
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := take(); err == nil || !strings.Contains(err.Error(), "uid 65534") {
		t.Errorf("another user's: %v", err)
	}
}

// A process that this one is just starting has copies of its files until it executes
// its program. It keeps no lock that was taken only to see that it is free: the next
// user of the device finds it free as well.
func TestAForkedProcessKeepsNoLock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	forks := make(chan struct{})
	go func() {
		defer close(forks)
		for ctx.Err() == nil {
			_ = exec.Command("/bin/true").Run() // that there is a fork is what counts
		}
	}()
	defer func() { cancel(); <-forks }()
	dir, run := t.TempDir(), t.TempDir()
	files := Of(dir, []cluster.DeviceID{"d0"}, run)
	agenttest.Write(t, files.Paths[0], `{"job":"j","generation":1,"run":"`+run+`"}`, 0o600)
	for range 300 {
		if held, err := files.GiveBack(); err != nil || len(held) > 0 {
			t.Fatalf("held: %v, %v", held, err)
		}
		next := taker{Request: lockRequestIn(dir, run), path: files.Paths[0]}
		f, _, err := next.try()
		if err != nil || next.held {
			t.Fatalf("the next user: held %t, %v", next.held, err)
		}
		if err = unlock(f); err != nil {
			t.Fatal(err)
		}
	}
}

// A lock is cleared only of the run that is gone; one of an earlier version's, whose
// workers may hold it themselves, only where it is sure that none lives; and never
// while others are at it.
func TestWhichLocksAreCleared(t *testing.T) {
	const ours, other = "/runs/ours", "/runs/other"
	rec := &rundir.Record{Version: run.ProtocolVersion}
	for name, c := range map[string]struct {
		held, guarded, sure bool
		says                Claim
		clears              bool
	}{
		"ours":                      {held: true, says: Claim{Job: "j", Run: ours, Record: rec}, clears: true},
		"free":                      {says: Claim{Job: "j", Run: ours, Record: rec}, sure: true},
		"another run's":             {held: true, sure: true, says: Claim{Job: "k", Run: other, Record: rec}},
		"an earlier version's":      {held: true, says: Claim{Job: "j", Run: ours}},
		"an earlier version's, end": {held: true, sure: true, says: Claim{Job: "j", Run: ours}, clears: true},
		"others are at it":          {held: true, guarded: true, sure: true, says: Claim{Job: "j", Run: ours, Record: rec}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := Path(dir, "d0")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err = sign(f, c.says); err != nil {
				t.Fatal(err)
			}
			if c.held {
				if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
					t.Fatal(err)
				}
			}
			if c.guarded {
				release, errGuard := guard(dir)
				if errGuard != nil {
					t.Fatal(errGuard)
				}
				defer release()
				me := taker{Request: lockRequestIn(dir, ours), path: path}
				if _, _, errTry := me.try(); !errors.Is(errTry, errBusy) {
					t.Errorf("a taker: %v", errTry)
				}
			}
			if err = clearLock(path, ours, c.sure); err != nil && (!c.guarded || !errors.Is(err, errBusy)) {
				t.Fatal(err)
			}
			if _, err = os.Stat(path); errors.Is(err, os.ErrNotExist) != c.clears {
				t.Errorf("cleared: %t, want %t", !c.clears, c.clears)
			}
		})
	}
}

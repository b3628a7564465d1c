package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func lockOrder(dir string) Order {
	return Order{Node: "n1", LockDir: dir, World: cluster.World{
		Job: "j", Generation: 1, Members: []cluster.Member{{Node: "n1", Devices: []cluster.DeviceID{"d0"}}},
	}}
}

// Any user could lock a file that he can open, and no job would get the device.
func TestNobodyElseCanOpenALock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	for _, before := range []os.FileMode{0, 0o644} { // that of an earlier version's
		if before != 0 {
			if err := os.Chmod(lockPath(dir, "d0"), before); err != nil {
				t.Fatal(err)
			}
		}
		l, err := takeLocks(t.Context(), lockOrder(dir), t.TempDir(), func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if err = l.close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(lockPath(dir, "d0"))
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
		l, err := takeLocks(t.Context(), lockOrder(dir), t.TempDir(), func(string) {})
		if err != nil {
			return err
		}
		return l.close()
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
		t.Errorf("where nobody may replace others' files: %v", err)
	}
	if os.Geteuid() != 0 {
		return // nobody but root can give it away
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := take(); err == nil || !strings.Contains(err.Error(), "uid 65534") {
		t.Errorf("another user's: %v", err)
	}
}

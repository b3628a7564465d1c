package dirblob_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint/dirblob"
)

// A probe says whether a job could save, also where its directory is still to be made, and leaves nothing.
func TestProbe(t *testing.T) {
	root := smallDisk(t)
	job := filepath.Join(root, "base", "job")
	ask := dirblob.Task{Root: job, Probe: "n1"}
	remount := func(flags uintptr) {
		if err := syscall.Mount("tmpfs", root, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	well := func(when string) {
		t.Helper()
		if a, err := through(t, ask); err != nil || a.Room == nil || !a.Room.Known || a.Room.FreeBytes == 0 {
			t.Errorf("%s: %+v, %v", when, a.Room, err)
		}
	}
	well("nothing is there yet")
	if err := os.MkdirAll(job, 0o755); err != nil {
		t.Fatal(err)
	}
	well("an empty directory")
	remount(syscall.MS_RDONLY)
	if _, err := through(t, ask); !errors.Is(err, syscall.EROFS) {
		t.Errorf("read-only: %v", err)
	}
	remount(0)
	well("writable again")
	free := fill(t, root)
	if _, err := through(t, ask); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: %v", err)
	}
	free()
	well("with room again")
	for _, dir := range []string{root, job} {
		left, err := os.ReadDir(dir)
		for _, e := range left {
			if e.Name() != "base" {
				t.Errorf("left %s", e.Name())
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

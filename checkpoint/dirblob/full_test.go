package dirblob_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

// smallDisk mounts a file system of one megabyte and a few files, which only root may.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a really full disk is a mount of the test's own, for which the kernel wants root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=24,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func write(t *testing.T, path string, bytes int) error {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Repeat("x", bytes)), 0o644)
}

// fill uses up every block, and says how to give them back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	if err := write(t, path, 2<<20); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// commit makes a checkpoint of one rank and returns how to verify it.
func commit(t *testing.T, root, dir string) dirblob.Task {
	t.Helper()
	step := filepath.Join(root, dir)
	if err := write(t, filepath.Join(step, layout.Rank(0), "model"), 100<<10); err != nil {
		t.Fatal(err)
	}
	a, err := through(t, dirblob.Task{Root: root, Digest: &dirblob.Digest{Dir: dir, Ranks: []int{0}}})
	if err != nil {
		t.Fatal(err)
	}
	a, err = through(t, dirblob.Task{Root: root, Write: &dirblob.Write{Dir: dir, Manifest: manifest(t, step, a.Files)}})
	if err != nil {
		t.Fatal(err)
	}
	return dirblob.Task{Root: root, Verify: &dirblob.Verify{Dir: dir, ManifestSHA256: a.ManifestSHA256}}
}

func manifest(t *testing.T, step string, files []record.File) checkpoint.Manifest {
	t.Helper()
	m, err := checkpoint.Merge(checkpoint.Title{Job: "j", Generation: 1, Step: 1, WorldSize: 1},
		[]record.Saved{{Dir: step, Ranks: []int{0}, Files: files}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRoomIsWhatTheDiskHas(t *testing.T) {
	root := smallDisk(t)
	ask := dirblob.Task{Root: root, Room: true}
	a, err := through(t, ask)
	if err != nil || a.Room == nil || !a.Room.Known || a.Room.NoFiles || a.Room.FreeBytes != 1<<20 {
		t.Fatalf("empty: %+v, %v", a.Room, err)
	}
	free := fill(t, root)
	if a, err = through(t, ask); err != nil || !a.Room.Known || a.Room.FreeBytes != 0 {
		t.Errorf("full: %+v, %v", a.Room, err)
	}
	free()
	for i := 0; write(t, filepath.Join(root, fmt.Sprint(i)), 0) == nil; i++ {
		if i > 100 {
			t.Fatal("the disk has files without end")
		}
	}
	if a, err = through(t, ask); err != nil || !a.Room.NoFiles {
		t.Errorf("no files left: %+v, %v", a.Room, err)
	}
}

// Whatever does not fit any more, the checkpoint before it stays as it was, and
// the same work succeeds once there is room.
func TestAFullDiskLeavesTheLastCheckpoint(t *testing.T) {
	root := smallDisk(t)
	verify := commit(t, root, "g00000001/step-1")
	const next = "g00000001/step-2"
	if err := write(t, filepath.Join(root, next, layout.Rank(0), "model"), 100<<10); err != nil {
		t.Fatal(err)
	}
	free := fill(t, root)
	a, err := through(t, dirblob.Task{Root: root, Digest: &dirblob.Digest{Dir: next, Ranks: []int{0}}})
	if err != nil {
		t.Fatalf("digesting needs no room: %v", err)
	}
	task := dirblob.Task{Root: root, Write: &dirblob.Write{Dir: next, Manifest: manifest(t, filepath.Join(root, next), a.Files)}}
	if _, err = through(t, task); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the manifest was written onto a full disk: %v", err)
	}
	if left, errRead := os.ReadDir(filepath.Join(root, next)); errRead != nil || len(left) != 1 {
		t.Errorf("the failed manifest left %v, %v", left, errRead)
	}
	if _, err = through(t, verify); err != nil {
		t.Errorf("the checkpoint before: %v", err)
	}
	free()
	if a, err = through(t, task); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if _, err = through(t, dirblob.Task{Root: root, Verify: &dirblob.Verify{Dir: next, ManifestSHA256: a.ManifestSHA256}}); err != nil {
		t.Errorf("the checkpoint written then: %v", err)
	}
}

// Deleting is what makes room: it must not need any.
func TestDeletingOnAFullDisk(t *testing.T) {
	root := smallDisk(t)
	verify := commit(t, root, "g00000002/step-2")
	for _, dir := range []string{"g00000001/step-1", "g00000002/step-1"} {
		if err := write(t, filepath.Join(root, dir, "torn"), 50<<10); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; write(t, filepath.Join(root, "filler", fmt.Sprint(i)), 0) == nil; i++ {
		if i > 100 {
			t.Fatal("the disk has files without end")
		}
	}
	a, err := through(t, dirblob.Task{Root: root, Retain: &checkpoint.Retain{Keep: []string{"g00000002/step-2"}, Running: 2, Below: 2}})
	if err != nil || len(a.Deleted) != 2 {
		t.Fatalf("deleted %v, %v", a.Deleted, err)
	}
	if _, err = through(t, verify); err != nil {
		t.Errorf("what was to be kept: %v", err)
	}
	if _, err = through(t, dirblob.Task{Root: root, Delete: "g00000001"}); err == nil {
		t.Error("what is not there was deleted")
	}
}

package dirblob_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/blobtest"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/owned"
)

func open(t *testing.T, root string) *dirblob.Dir {
	t.Helper()
	d, err := dirblob.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestDirIsBlobs(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blobtest.Bench {
		root := t.TempDir()
		return blobtest.Bench{
			Blobs: open(t, root),
			Write: func(name string, data []byte) error {
				full := filepath.Join(root, name)
				return errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, data, 0o644))
			},
			Link: func(target, name string) error { return os.Symlink(target, filepath.Join(root, name)) },
		}
	})
}

func TestDeleteLeavesAloneWhatALinkPointsTo(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	precious := filepath.Join(outside, "precious")
	for _, err := range []error{
		os.WriteFile(precious, []byte("x"), 0o644),
		os.MkdirAll(filepath.Join(root, "g1/step-1"), 0o755),
		os.Symlink(outside, filepath.Join(root, "g1/step-1/out")),
		os.Symlink(outside, filepath.Join(root, "g1/step-2")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, root)
	for _, dir := range []string{"g1/step-1", "g1/step-2"} {
		if err := d.Delete(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestDeleteClearsWhatAnEarlierOneLeft(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{".trash/g1_step-1.0/rank-00000", "g1/step-1"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, root).Delete("g1/step-1"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 || left[0].Name() != "g1" {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestAPipeIsRefusedAndNotWaitedFor(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "g1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "g1/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := open(t, root)
	done := make(chan error, 1)
	go func() {
		_, err := d.Open("g1/pipe")
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a pipe was opened as a checkpoint's file")
		}
	case <-time.After(time.Minute):
		t.Fatal("Open waits for the pipe's writer")
	}
	if _, err := checkpoint.Digest(t.Context(), d, "g1", nil); err == nil {
		t.Error("a checkpoint with a pipe in it was digested")
	}
}

// Each of them alone: none relies on another having been asked before.
func TestNothingIsTouchedInADirectoryOfAll(t *testing.T) {
	root := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "g1/step-1"), 0o755), os.WriteFile(filepath.Join(root, "g1/step-1/model"), nil, 0o644), os.Chmod(filepath.Join(root, "g1"), 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, touch := range map[string]func(d *dirblob.Dir) error{
		"List": func(d *dirblob.Dir) error { _, err := d.List("g1/step-1"); return err },
		"Open": func(d *dirblob.Dir) error { _, err := d.Open("g1/step-1/model"); return err },
		"Put":  func(d *dirblob.Dir) error { return d.Put("g1/step-1/MANIFEST.json", nil) },
	} {
		if err := touch(open(t, root)); !errors.Is(err, owned.ErrForeign) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

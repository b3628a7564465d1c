package dirblob_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/checkpoint/owned"
	"github.com/bellows-ml/bellows/record"
)

// through sends a task to Serve and back, as a parent and its child do.
func through(t *testing.T, task dirblob.Task) (dirblob.Answer, error) {
	t.Helper()
	in, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err = dirblob.Serve(t.Context(), bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	return dirblob.ReadAnswer(&out)
}

func TestTasksThroughAChild(t *testing.T) {
	root := t.TempDir()
	const dir = "g00000001/step-7"
	step := filepath.Join(root, dir)
	if err := errors.Join(os.MkdirAll(step, 0o755), os.WriteFile(filepath.Join(step, "model"), []byte("weights"), 0o644)); err != nil {
		t.Fatal(err)
	}

	find := dirblob.Task{Root: root, Find: &checkpoint.Search{Dir: "g00000001", Since: -1}}
	if a, err := through(t, find); err != nil || a.Plain != nil {
		t.Fatalf("before COMPLETE: %+v, %v", a.Plain, err)
	}
	if err := os.WriteFile(filepath.Join(step, layout.Complete), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := through(t, find)
	if err != nil || a.Plain == nil || *a.Plain != (checkpoint.Plain{Dir: dir, Step: 7, Samples: -1}) {
		t.Fatalf("after COMPLETE: %+v, %v", a.Plain, err)
	}

	a, err = through(t, dirblob.Task{Root: root, Digest: &dirblob.Digest{Dir: dir}})
	if err != nil || len(a.Files) != 2 {
		t.Fatalf("digest: %+v, %v", a, err)
	}
	m, err := checkpoint.Merge(checkpoint.Title{Job: "j", Generation: 1, Step: 7, WorldSize: 2},
		[]record.Saved{{Dir: step, Ranks: []int{0, 1}, Files: a.Files}})
	if err != nil {
		t.Fatal(err)
	}
	a, err = through(t, dirblob.Task{Root: root, Write: &dirblob.Write{Dir: dir, Manifest: m}})
	if err != nil || len(a.ManifestSHA256) != 64 {
		t.Fatalf("write: %+v, %v", a, err)
	}
	verify := dirblob.Task{Root: root, Verify: &dirblob.Verify{Dir: dir, ManifestSHA256: a.ManifestSHA256}}
	if a, err = through(t, verify); err != nil || a.Bytes != int64(len("weights")) {
		t.Fatalf("verify: %+v, %v", a, err)
	}

	if err = os.WriteFile(filepath.Join(step, "model"), []byte("weighty"), 0o644); err != nil {
		t.Fatal(err)
	}
	quick := verify
	quick.Verify = &dirblob.Verify{Dir: dir, ManifestSHA256: verify.Verify.ManifestSHA256, Quick: true}
	if _, err = through(t, quick); err != nil {
		t.Errorf("a quick look reads no contents, yet: %v", err)
	}
	var corrupt *checkpoint.CorruptError
	if _, err = through(t, verify); !errors.As(err, &corrupt) || corrupt.Path != dir+"/model" || corrupt.What != "sha256" {
		t.Errorf("verify of a changed file: %v", err)
	}
	old := filepath.Join(root, "g00000001", "step-5", "deep")
	if err = os.MkdirAll(old, 0o755); err != nil {
		t.Fatal(err)
	}
	retain := dirblob.Task{Root: root, Retain: &checkpoint.Retain{Keep: []string{dir}, Running: 1, Below: 7}}
	if a, err = through(t, retain); err != nil || len(a.Deleted) != 1 || a.Deleted[0] != "g00000001/step-5" {
		t.Errorf("retain: deleted %v, %v", a.Deleted, err)
	}
	if _, err = through(t, quick); err != nil {
		t.Errorf("what was to be kept: %v", err)
	}
	if _, err = through(t, dirblob.Task{Root: root, Delete: dir}); err != nil {
		t.Error(err)
	}
	if _, err = through(t, verify); !errors.Is(err, checkpoint.ErrAbsent) || errors.As(err, &corrupt) {
		t.Errorf("verify of a deleted checkpoint: %v", err)
	}
}

// What another user could have made, or can exchange at any time, is neither
// digested nor resumed from: loading it may execute it.
func TestTasksRefuseWhatOthersCanExchange(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "job")
	const dir = "g00000001/step-7"
	step := filepath.Join(root, dir)
	if err := os.MkdirAll(step, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model", layout.Complete} {
		if err := os.WriteFile(filepath.Join(step, name), []byte("weights"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	digest := dirblob.Task{Root: root, Digest: &dirblob.Digest{Dir: dir}}
	a, err := through(t, digest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := checkpoint.Merge(checkpoint.Title{Job: "j", Generation: 1, Step: 7, WorldSize: 1},
		[]record.Saved{{Dir: step, Ranks: []int{0}, Files: a.Files}})
	if err != nil {
		t.Fatal(err)
	}
	write := dirblob.Task{Root: root, Write: &dirblob.Write{Dir: dir, Manifest: m}}
	if a, err = through(t, write); err != nil {
		t.Fatal(err)
	}
	verify := dirblob.Task{Root: root, Verify: &dirblob.Verify{Dir: dir, ManifestSHA256: a.ManifestSHA256}}
	quick := dirblob.Task{Root: root, Verify: &dirblob.Verify{Dir: dir, ManifestSHA256: a.ManifestSHA256, Quick: true}}
	find := dirblob.Task{Root: root, Find: &checkpoint.Search{Dir: "g00000001", Since: -1}}
	all := map[string]dirblob.Task{"digest": digest, "write": write, "verify": verify, "quick look": quick, "find": find}
	for path, mode := range map[string]os.FileMode{
		base: 0o777, root: 0o757, filepath.Join(root, "g00000001"): 0o757, step: 0o1777,
		filepath.Join(step, "model"): 0o666, filepath.Join(step, layout.Manifest): 0o646,
	} {
		info, errStat := os.Stat(path)
		if errStat != nil {
			t.Fatal(errStat)
		}
		if err = os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for name, task := range all {
			file := !info.IsDir()
			if file && name != "verify" && (name != "digest" || filepath.Base(path) != "model") {
				continue // which do not read this file
			}
			if _, err = through(t, task); !errors.Is(err, owned.ErrForeign) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s with mode %04o of %s: %v", name, mode, path, err)
			}
		}
		if err = os.Chmod(path, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	for name, task := range all {
		if _, err = through(t, task); err != nil {
			t.Errorf("%s, once they are the owner's alone again: %v", name, err)
		}
	}
}

// A hard link brings another user's file into an owned directory; it is that user's still.
func TestAnothersFileIsNoPartOfACheckpoint(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away, and only that is tested here")
	}
	root := filepath.Join(t.TempDir(), "job")
	step := filepath.Join(root, "g00000001", "step-7")
	theirs := filepath.Join(t.TempDir(), "theirs")
	for _, err := range []error{
		os.MkdirAll(step, 0o755), os.WriteFile(theirs, []byte("weights"), 0o644), os.Chown(theirs, 65534, 65534), os.Link(theirs, filepath.Join(step, "model")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := through(t, dirblob.Task{Root: root, Digest: &dirblob.Digest{Dir: "g00000001/step-7"}})
	if !errors.Is(err, owned.ErrForeign) || !strings.Contains(err.Error(), "/model belongs to") {
		t.Errorf("it was digested: %v", err)
	}
}

func TestTasksThatCannotBe(t *testing.T) {
	for want, task := range map[string]dirblob.Task{
		"use an absolute path": {Root: "ckpt", Delete: "g1"},
		"the task is empty":    {Root: t.TempDir()},
		"open checkpoint dir":  {Root: "/nowhere/at/all", Delete: "g1"},
	} {
		if _, err := through(t, task); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
	if err := dirblob.Serve(t.Context(), strings.NewReader("{"), &bytes.Buffer{}); err == nil {
		t.Error("half a task was accepted")
	}
	if _, err := dirblob.ReadAnswer(strings.NewReader("")); err == nil {
		t.Error("a child that died without an answer passes for one that succeeded")
	}
}

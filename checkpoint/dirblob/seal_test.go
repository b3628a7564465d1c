package dirblob_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

// sealed saves a checkpoint of one file, and returns how to verify it with the seal it got.
func sealed(t *testing.T, between func(file string)) (verify dirblob.Task, file string) {
	t.Helper()
	root := t.TempDir()
	const dir = "g00000001/step-1"
	step := filepath.Join(root, dir)
	file = filepath.Join(step, layout.Rank(0), "model")
	if err := write(t, file, 100<<10); err != nil {
		t.Fatal(err)
	}
	a, err := through(t, dirblob.Task{Root: root, Digest: &dirblob.Digest{Dir: dir, Ranks: []int{0}}})
	if err != nil || a.Changed == 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	between(file)
	m, err := checkpoint.Merge(checkpoint.Title{Job: "j", Generation: 1, Step: 1, WorldSize: 1},
		[]record.Saved{{Dir: step, Ranks: []int{0}, Files: a.Files}})
	if err != nil {
		t.Fatal(err)
	}
	a, err = through(t, dirblob.Task{Root: root, Write: &dirblob.Write{Dir: dir, Manifest: m, Changes: []int64{a.Changed}}})
	if err != nil {
		t.Fatal(err)
	}
	return dirblob.Task{Root: root, Verify: &dirblob.Verify{Dir: dir, ManifestSHA256: a.ManifestSHA256, Seal: a.Seal}}, file
}

// flip changes one byte and puts the time of the change back, as a restore or a sync tool does.
func flip(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{0xff}, 7)
	if err = errors.Join(err, f.Close(), os.Chtimes(file, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

func TestASealSparesReadingOnlyWhatIsAsItWas(t *testing.T) {
	verify, file := sealed(t, func(string) {})
	if verify.Verify.Seal == "" {
		t.Fatal("an unchanged checkpoint got no seal")
	}
	a, err := through(t, verify)
	if err != nil || a.Whole || a.Seal != verify.Verify.Seal {
		t.Errorf("untouched: %+v, %v", a, err)
	}
	if err = os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if a, err = through(t, verify); err != nil || !a.Whole || a.Seal == verify.Verify.Seal {
		t.Errorf("touched, and as it was: %+v, %v", a, err)
	}
	verify.Verify.Seal = a.Seal
	if a, err = through(t, verify); err != nil || a.Whole {
		t.Errorf("read since: %+v, %v", a, err)
	}
	flip(t, file)
	var corrupt *checkpoint.CorruptError
	if _, err = through(t, verify); !errors.As(err, &corrupt) || corrupt.What != "sha256" {
		t.Errorf("one byte is another, in a file of the same size and time: %v", err)
	}
}

// Between a node's digest and the manifest lies the time that the slowest node needs.
func TestWhatChangesAfterItsDigestIsNotSealed(t *testing.T) {
	verify, _ := sealed(t, func(file string) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { // file systems' clocks tick coarsely
			flip(t, file)
			now, err := os.Stat(file)
			return err == nil && changed(now) > changed(info)
		})
	})
	if verify.Verify.Seal != "" {
		t.Error("it is sealed")
	}
	var corrupt *checkpoint.CorruptError
	if _, err := through(t, verify); !errors.As(err, &corrupt) {
		t.Errorf("verified: %v", err)
	}
}

func eventually(t *testing.T, good func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !good(); {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

func changed(info os.FileInfo) int64 {
	s, _ := info.Sys().(*syscall.Stat_t)
	return s.Ctim.Nano()
}

package dirblob

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/layout"
)

// power knows what a power cut would leave of a directory: of each file what it
// held when it was synced, of each directory the names that it had then.
type power struct {
	t     *testing.T
	root  string
	files map[uint64]string
	dirs  map[uint64]map[string]uint64
	synch int // how many syncs there were
	// failAt makes one of them fail; -1 = none.
	failAt int
	during func() // looks at the directory at each sync
}

// powered returns a Dir that is durable only as far as it asks for it.
func powered(t *testing.T) (*Dir, *power) {
	t.Helper()
	root := t.TempDir()
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	p := &power{t: t, root: root, files: map[uint64]string{}, dirs: map[uint64]map[string]uint64{}, failAt: -1, during: func() {}}
	d.fsync = p.sync
	return d, p
}

func inode(t *testing.T, info os.FileInfo) uint64 {
	t.Helper()
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no inode")
	}
	return s.Ino
}

func (p *power) sync(f *os.File) error {
	p.during()
	if p.synch++; p.synch-1 == p.failAt {
		return syscall.EIO
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	self := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if info.IsDir() {
		names := map[string]uint64{}
		var entries []os.DirEntry
		entries, err = os.ReadDir(self + "/.")
		for _, e := range entries {
			below, errInfo := e.Info()
			if err = errors.Join(err, errInfo); err == nil {
				names[e.Name()] = inode(p.t, below)
			}
		}
		p.dirs[inode(p.t, info)] = names
		return err
	}
	data, err := os.ReadFile(self)
	p.files[inode(p.t, info)] = string(data)
	return err
}

// left is what a power cut now would leave of a file, false if it would not be there.
func (p *power) left(name string) (data string, there bool) {
	info, err := os.Stat(p.root)
	if err != nil {
		p.t.Fatal(err)
	}
	at := inode(p.t, info)
	for part := range strings.SplitSeq(name, "/") {
		if at, there = p.dirs[at][part]; !there {
			return "", false
		}
	}
	return p.files[at], true
}

func (p *power) mkdir(dir string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Join(p.root, dir), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

// What Put has written is there after a power cut, with every name on the way to
// it; and a name never stands for what is not written yet.
func TestPutSurvivesAPowerCut(t *testing.T) {
	d, p := powered(t)
	const dir, name = "g00000001/step-1", "g00000001/step-1/" + layout.Manifest
	p.mkdir(dir)
	for _, text := range []string{"the first", "the second, which is longer"} {
		p.during = func() {
			info, err := os.Stat(filepath.Join(p.root, name))
			if err != nil {
				return // it has no name yet
			}
			now, _ := os.ReadFile(filepath.Join(p.root, name))
			if hard := p.files[inode(t, info)]; hard != string(now) {
				t.Errorf("%s stands for %q, of which %q is written", name, now, hard)
			}
		}
		if err := d.Put(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, there := p.left(name); got != text {
			t.Errorf("after a power cut: %q, %t, want %q", got, there, text)
		}
	}
}

// A manifest, and a part of one, that is said to be written is.
func TestAManifestSurvivesAPowerCut(t *testing.T) {
	d, p := powered(t)
	const dir = "g00000001/step-1"
	p.mkdir(dir)
	digest, err := checkpoint.Write(d, dir, checkpoint.Manifest{Format: checkpoint.Format})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = checkpoint.WritePart(d, dir, []int{2, 3}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{layout.Manifest, checkpoint.PartName([]int{2, 3})} {
		now, _ := os.ReadFile(filepath.Join(p.root, dir, name))
		if got, _ := p.left(dir + "/" + name); got != string(now) || got == "" {
			t.Errorf("%s (%s): after a power cut %q, now %q", name, digest, got, now)
		}
	}
}

// Whatever sync fails, Put says so: nothing is offered that may be lost.
func TestPutFailsWithEachSync(t *testing.T) {
	for at := 0; ; at++ {
		d, p := powered(t)
		p.mkdir("g1/step-1")
		p.failAt = at
		err := d.Put("g1/step-1/m", []byte("x"))
		if p.synch <= at {
			if at != 4 { // the file, its directory, and those above
				t.Errorf("Put syncs %d times", at)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("sync %d failed, and Put says %v", at, err)
		}
	}
}

// What Delete has removed does not come back in part.
func TestDeleteSurvivesAPowerCut(t *testing.T) {
	d, p := powered(t)
	p.mkdir("g1/step-1")
	p.mkdir("g1/step-2")
	if err := d.Put("g1/step-1/m", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete("g1/step-1"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(p.root, "g1"))
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(p.dirs[inode(t, info)])); !slices.Equal(names, []string{"step-2"}) {
		t.Errorf("after a power cut: %v", names)
	}
}

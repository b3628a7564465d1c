package dirblob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/checkpoint/owned"
)

// Dir is checkpoint.Blobs on a directory that is this process's user's alone, as
// all that is read and written in it has to be.
type Dir struct {
	root *os.Root
	// fsync makes a file or directory durable: (*os.File).Sync, or a test's that knows what a power cut would leave.
	fsync func(*os.File) error

	mu    sync.Mutex
	owned map[string]bool // directories whose check has passed; only their owner can change that
}

var _ checkpoint.Blobs = (*Dir)(nil)

// Open opens a directory that exists. The caller closes it.
func Open(root string) (*Dir, error) {
	r, err := owned.Open(root)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint directory: %w", err)
	}
	return &Dir{root: r, fsync: (*os.File).Sync, owned: map[string]bool{}}, nil
}

// check demands that a directory, and all on the way to it, is the owner's alone.
func (d *Dir) check(dir string) error {
	dir = path.Clean(dir)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owned[dir] {
		return nil
	}
	if err := owned.Check(d.root, dir); err != nil {
		return err
	}
	d.owned[dir] = true
	return nil
}

// Close lets go of the directory.
func (d *Dir) Close() error { return d.root.Close() }

// List implements checkpoint.Blobs.
func (d *Dir) List(dir string) ([]checkpoint.Entry, error) {
	if err := d.check(dir); err != nil {
		return nil, err
	}
	f, err := d.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]checkpoint.Entry, 0, len(found))
	for _, e := range found {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry(info))
	}
	slices.SortFunc(entries, func(a, b checkpoint.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

func entry(info fs.FileInfo) checkpoint.Entry {
	switch {
	case info.IsDir():
		return checkpoint.Entry{Name: info.Name(), Kind: checkpoint.Directory}
	case info.Mode().IsRegular():
		return checkpoint.Entry{Name: info.Name(), Kind: checkpoint.Regular, Bytes: info.Size()}
	default:
		return checkpoint.Entry{Name: info.Name(), Kind: checkpoint.Irregular}
	}
}

// Open implements checkpoint.Blobs. It never waits for the writer of a pipe,
// and refuses what is neither a plain file nor a directory.
func (d *Dir) Open(name string) (checkpoint.File, error) {
	if err := d.check(path.Dir(name)); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: it is a %s: only plain files belong into a checkpoint", name, info.Mode().Type())
	}
	if err == nil {
		err = owned.CheckFile(info, filepath.Join(d.root.Name(), filepath.FromSlash(name)))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Put implements checkpoint.Blobs: a new file, synced and then renamed over the
// old one, and the directories above it synced.
func (d *Dir) Put(name string, data []byte) error {
	if err := d.check(path.Dir(name)); err != nil {
		return err
	}
	name = filepath.FromSlash(name)
	fresh := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".tmp")
	if err := d.writeSynced(fresh, data); err != nil {
		return errors.Join(err, ignoreAbsent(d.root.Remove(fresh)))
	}
	if err := d.root.Rename(fresh, name); err != nil {
		return errors.Join(err, ignoreAbsent(d.root.Remove(fresh)))
	}
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if err := d.sync(dir); err != nil || dir == "." {
			return err
		}
	}
}

func (d *Dir) writeSynced(name string, data []byte) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = d.fsync(f)
	}
	return errors.Join(err, f.Close())
}

func (d *Dir) sync(dir string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.fsync(f), f.Close())
}

// Delete implements checkpoint.Blobs. It also removes what earlier deletions,
// cut short, have left.
func (d *Dir) Delete(dir string) error {
	if err := checkpoint.CheckPath(dir); err != nil || dir == layout.Trash || strings.HasPrefix(dir, layout.Trash+"/") {
		return fmt.Errorf("delete %s: it is not a checkpoint's directory", dir)
	}
	switch err := d.root.Mkdir(layout.Trash, 0o700); {
	case full(err):
		// The one who could make room needs none: in place then, not all at once.
		// A crash leaves a part of a directory that is not needed any more.
		if _, err = d.root.Lstat(filepath.FromSlash(dir)); err == nil {
			err = d.root.RemoveAll(filepath.FromSlash(dir))
		}
		return err
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	if err := d.moveToTrash(dir); err != nil {
		return err
	}
	if err := d.sync(filepath.FromSlash(path.Dir(dir))); err != nil {
		return err
	}
	return d.root.RemoveAll(layout.Trash)
}

// moveToTrash finds a name that is free there: two may delete at once.
func (d *Dir) moveToTrash(dir string) error {
	const tries = 1000 // as many as can lie there after crashes, and more
	flat := strings.ReplaceAll(dir, "/", "_")
	for i := range tries {
		err := d.root.Rename(filepath.FromSlash(dir), filepath.Join(layout.Trash, flat+"."+strconv.Itoa(i)))
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return fmt.Errorf("delete %s: %s holds %d earlier ones: remove them by hand", dir, layout.Trash, tries)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

package blobtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bellows-ml/bellows/checkpoint"
)

// Disk is Blobs in memory, with a power switch. It keeps apart what was written
// and what was synced, for the contents of files and for the names in
// directories alike, and is as forgetful as a file system may be: after a
// PowerCut only what was synced is there. Safe for concurrent use.
type Disk struct {
	// Lies: Sync reports success and does nothing, as some disks do. Set it before use.
	Lies bool

	mu    sync.Mutex
	root  *inode
	steps int // changes and syncs so far
	dieAt int // from this step on every one fails; -1 = never
}

// inode is a file or a directory, as it is and as it would be after a power cut.
type inode struct {
	dir            bool
	data, hardData []byte
	names, hard    map[string]*inode
}

func newDir() *inode { return &inode{dir: true, names: map[string]*inode{}, hard: map[string]*inode{}} }

var _ checkpoint.Blobs = (*Disk)(nil)

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{root: newDir(), dieAt: -1} }

// Steps returns how many single changes and syncs the disk has seen.
func (d *Disk) Steps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps
}

// DieAt makes the n-th change or sync from now, counted from 0, and all after it fail with ErrDead.
func (d *Disk) DieAt(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dieAt = d.steps + n
}

// PowerCut forgets what was not synced, and lets everything work again.
func (d *Disk) PowerCut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.root.forget(map[*inode]bool{})
	d.dieAt = -1
}

func (n *inode) forget(seen map[*inode]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	n.data, n.names = n.hardData, maps.Clone(n.hard)
	for _, child := range n.names {
		child.forget(seen)
	}
}

// stepLocked counts a change or a sync.
func (d *Disk) stepLocked() error {
	d.steps++
	if d.dieAt >= 0 && d.steps > d.dieAt {
		return ErrDead
	}
	return nil
}

// WriteFile does what a training script does: it makes the directories, writes
// the file, and syncs nothing.
func (d *Disk) WriteFile(name string, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.root
	parts := strings.Split(name, "/")
	for _, p := range parts[:len(parts)-1] {
		if at.names[p] == nil {
			at.names[p] = newDir()
		}
		at = at.names[p]
	}
	at.names[parts[len(parts)-1]] = &inode{data: bytes.Clone(data)}
	return nil
}

func (d *Disk) findLocked(op, name string) (*inode, error) {
	if name != "." {
		if err := checkpoint.CheckPath(name); err != nil {
			return nil, err
		}
	}
	at := d.root
	for p := range strings.SplitSeq(name, "/") {
		if p == "." {
			continue
		}
		if at = at.names[p]; at == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	return at, nil
}

// List implements checkpoint.Blobs.
func (d *Disk) List(dir string) ([]checkpoint.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.findLocked("list", dir)
	if err != nil {
		return nil, err
	}
	var entries []checkpoint.Entry
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		e := checkpoint.Entry{Name: name, Kind: checkpoint.Directory}
		if child := n.names[name]; !child.dir {
			e.Kind, e.Bytes = checkpoint.Regular, int64(len(child.data))
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Open implements checkpoint.Blobs.
func (d *Disk) Open(name string) (checkpoint.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.findLocked("open", name)
	if err != nil {
		return nil, err
	}
	return &diskFile{Reader: bytes.NewReader(n.data), disk: d, n: n}, nil
}

// Put implements checkpoint.Blobs in the steps in which a file system does it.
func (d *Disk) Put(name string, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, err := d.findLocked("put", path.Dir(name))
	if err != nil {
		return err
	}
	if _, err = d.findLocked("put", name); err != nil && dir.names[path.Base(name)] != nil {
		return err
	}
	if err = checkpoint.CheckPath(name); err != nil {
		return err
	}
	fresh := &inode{}
	if err = d.stepLocked(); err != nil { // in the middle of the write
		return err
	}
	fresh.data = bytes.Clone(data)
	if err = d.syncLocked(fresh); err != nil {
		return err
	}
	if err = d.stepLocked(); err != nil { // before the rename
		return err
	}
	dir.names[path.Base(name)] = fresh
	for above := path.Dir(name); ; above = path.Dir(above) {
		n, err := d.findLocked("sync", above)
		if err == nil {
			err = d.syncLocked(n)
		}
		if err != nil || above == "." {
			return err
		}
	}
}

// Delete implements checkpoint.Blobs.
func (d *Disk) Delete(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := checkpoint.CheckPath(dir); err != nil {
		return err
	}
	if _, err := d.findLocked("delete", dir); err != nil {
		return err
	}
	above, err := d.findLocked("delete", path.Dir(dir))
	if err != nil {
		return err
	}
	if err = d.stepLocked(); err != nil {
		return err
	}
	delete(above.names, path.Base(dir))
	return d.syncLocked(above)
}

func (d *Disk) syncLocked(n *inode) error {
	if err := d.stepLocked(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if !d.Lies {
		n.hardData, n.hard = n.data, maps.Clone(n.names)
	}
	return nil
}

type diskFile struct {
	*bytes.Reader
	disk *Disk
	n    *inode
}

// Sync implements checkpoint.File.
func (f *diskFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.disk.syncLocked(f.n)
}

// Close implements io.Closer.
func (f *diskFile) Close() error { return nil }

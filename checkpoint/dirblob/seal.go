package dirblob

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"syscall"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/layout"
)

// A seal is what a file system keeps of a checkpoint's files and cannot be given
// back to one that was written to: inode, size, and the times to the nanosecond
// at which contents and inode changed. As long as it is what it was when the
// files were read, reading them again shows the same, but for what a disk does
// to them by itself. Empty where nothing can be said.

// state is one file's part of a seal.
type state struct {
	inode             uint64
	bytes             int64
	modified, changed syscall.Timespec
}

// stateOf asks about an open file: a network file system asks its server then,
// where for a name it may answer out of its own memory.
func (d *Dir) stateOf(name string) (state, error) {
	f, err := d.root.OpenFile(filepath.FromSlash(name), syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return state{}, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return state{}, err
	}
	return stateIn(info)
}

func stateIn(info fs.FileInfo) (state, error) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return state{}, fmt.Errorf("ask about %s: nothing is known of it", info.Name())
	}
	return state{inode: s.Ino, bytes: s.Size, modified: s.Mtim, changed: s.Ctim}, nil
}

// seal returns the seal of a checkpoint with this manifest. changes, if given,
// says by file what the newest change was that its digest can have seen: with a
// later one there is no seal.
func (d *Dir) seal(dir string, m checkpoint.Manifest, changes []int64) string {
	sum := sha256.New()
	add := func(name string) (state, bool) {
		s, err := d.stateOf(path.Join(dir, name))
		if err != nil {
			return s, false // what reads it says why
		}
		fmt.Fprintf(sum, "%q %d %d %d.%09d %d.%09d\n", name, s.inode, s.bytes, s.modified.Sec, s.modified.Nsec, s.changed.Sec, s.changed.Nsec)
		return s, true
	}
	if _, ok := add(layout.Manifest); !ok || changes != nil && len(changes) != len(m.Files) {
		return ""
	}
	for i, f := range m.Files {
		s, ok := add(f.Path)
		if !ok || s.bytes != f.Bytes || changes != nil && s.changed.Nano() > changes[i] {
			return ""
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// lastChange returns when the newest of the files below a checkpoint's ranks'
// directories was changed, in nanoseconds of the file system's own clock; with
// no ranks given, of all files. Asked for before they are digested.
func (d *Dir) lastChange(dir string, ranks []int) (newest int64, err error) {
	dirs := []string{dir}
	if len(ranks) > 0 {
		dirs = nil
	}
	for _, rank := range ranks {
		dirs = append(dirs, path.Join(dir, layout.Rank(rank)))
	}
	for _, sub := range dirs {
		err = errors.Join(err, fs.WalkDir(d.root.FS(), sub, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil // gone since: the digest of the rest does not include it
			}
			if err != nil {
				return err
			}
			s, err := stateIn(info)
			newest = max(newest, s.changed.Nano())
			return err
		}))
	}
	if err != nil {
		return 0, fmt.Errorf("look when %s was changed: %w", dir, err)
	}
	return newest, nil
}

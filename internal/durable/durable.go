// Package durable writes files that survive a power cut: all of the new text or all of the
// old one is there afterwards, and the new one once the write has returned nil.
//
// It is for the files of Bellows' own directories. A checkpoint, where another user may have
// made what is in the way, is written by checkpoint/dirblob, which follows no link.
//
// A process that is killed while it writes may leave a file NAME.*.tmp beside the file. Readers
// know files by their names, so that it takes up room and does no harm.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write puts data at path with a mode, which the umask does not change. Readers see the old
// file or the new one, whole. Of several writers at once one is last. After an error the old
// file is as it was, or the new one is there and may be lost in a power cut.
func Write(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, os.Rename)
}

// Create is Write where no file may be: it replaces nothing. Of several writers at once one
// succeeds; the others' errors are fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, func(from, to string) error {
		err := os.Link(from, to) // unlike a rename it replaces nothing
		return errors.Join(err, os.Remove(from))
	})
}

// write puts data into a new file beside path and has it take that name.
func write(path string, data []byte, mode fs.FileMode, take func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = take(f.Name(), path)
	}
	if err == nil {
		return SyncDir(filepath.Dir(path))
	}
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// SyncDir makes the names in a directory durable. File systems without this call, such as
// CIFS, write names at once: there it does nothing.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

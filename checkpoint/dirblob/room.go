package dirblob

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bellows-ml/bellows/checkpoint"
)

// room asks the file system of a directory what is left for ordinary users:
// what is kept back for root is not for checkpoints.
func room(dir string) (*checkpoint.Room, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return nil, fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	if s.Blocks == 0 { // some file systems in user space
		return &checkpoint.Room{}, nil
	}
	unit := uint64(max(s.Frsize, 1)) //nolint:gosec // positive
	free := min(s.Bavail, math.MaxInt64/unit) * unit
	return &checkpoint.Room{Known: true, FreeBytes: int64(free), NoFiles: s.Files > 0 && s.Ffree == 0}, nil //nolint:gosec // bounded above
}

// full reports whether the disk, or what a user may have of it, is used up.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

const (
	// probePrefix begins the name of a file that is written to see whether one can be.
	probePrefix = ".bellows-probe-"
	// probeBytes is more than a file system keeps within an inode.
	probeBytes = 64 << 10
)

// probe writes a file durably and removes it again, in a directory or, while
// that is not there, in the nearest above it: the work that has failed would
// make it. Others may write there too, so what is in the way under that name is
// not opened. A crash leaves one small file, which the next probe takes away.
func probe(dir, who string) (*checkpoint.Room, error) {
	at, err := existing(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, fmt.Errorf("try to write to %s: %w", at, err)
	}
	defer root.Close()
	name := fmt.Sprintf("%s%s-%d", probePrefix, strings.ReplaceAll(who, "/", "_"), os.Geteuid())
	err = ignoreAbsent(root.Remove(name))
	if err == nil {
		err = tryWriting(root, name)
	}
	if err != nil {
		return nil, fmt.Errorf("try to write to %s: %w", at, err)
	}
	return room(at)
}

func tryWriting(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Sync(), f.Close(), root.Remove(name))
}

// existing returns the nearest directory at or above one that is there.
func existing(dir string) (string, error) {
	for ; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(dir)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir, err
		}
	}
}

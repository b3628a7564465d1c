package dirblob

import (
	"errors"
	"fmt"
	"math"
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

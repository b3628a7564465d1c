package jobspec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bellows-ml/bellows/checkpoint/owned"
	"github.com/bellows-ml/bellows/internal/fault"
)

// prepareCheckpointDir makes the folder and writes to it once, as the user who
// submits. A link to a folder is as good as the folder: whether it is the same
// one on every node is found out there, and links inside of it are refused there.
func prepareCheckpointDir(dir string) error {
	if err := checkDangling(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("checkpoint dir %s: cannot be made: %w; choose another", dir, culprit(dir, err))
	}
	if err := owned.CheckBase(dir); err != nil {
		return fmt.Errorf("checkpoint dir %s: %w", dir, err)
	}
	f, err := os.CreateTemp(dir, ".bellows-probe-*")
	if err != nil {
		return fmt.Errorf("checkpoint dir %s: cannot be written to: %w; make it writable, or choose another", dir, fault.Reason(err))
	}
	_, writeErr := f.WriteString("probe")
	if err := errors.Join(writeErr, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("checkpoint dir %s: cannot be written to: %w; make room, or choose another", dir, fault.Reason(err))
	}
	return nil
}

// checkDangling finds a link on the way that leads nowhere, which the system
// calls a file that exists.
func checkDangling(dir string) error {
	for path := dir; path != filepath.Dir(path); path = filepath.Dir(path) {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			to, _ := os.Readlink(path)
			return fmt.Errorf("checkpoint dir %s: %s is a link to %s, which is not there; make that folder, or choose another", dir, path, to)
		}
	}
	return nil
}

// culprit names what is in the way if that is not the folder itself.
func culprit(dir string, err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok && e.Path != dir {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return fault.Reason(err)
}

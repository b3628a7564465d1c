package precheck

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
)

// What is wrong for a moment is told from what a person has to mend.
func TestFailureOf(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]record.FailureKind{
		unix.ENOSPC: record.NoSpace, unix.EDQUOT: record.NoSpace,
		unix.EROFS: record.Transient, unix.EIO: record.Transient, unix.ESTALE: record.Transient, unix.ETIMEDOUT: record.Transient, unix.ENOMEM: record.Transient,
		unix.EACCES: record.NodeRefused, unix.ENOENT: record.NodeRefused, unix.ENOTDIR: record.NodeRefused, errors.New("x"): record.NodeRefused,
	} {
		if got := FailureOf(&os.PathError{Op: "mkdir", Path: "/ck", Err: err}); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

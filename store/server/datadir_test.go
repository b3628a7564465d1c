package server

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that is being started has the directory's lock open for a moment. It
// does not keep a successor out.
func TestAForkedProcessDoesNotKeepTheDataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := openDataDir(dir, "c", "")
	if err != nil {
		t.Fatal(err)
	}
	forked, err := unix.FcntlInt(first.file.Fd(), unix.F_DUPFD_CLOEXEC, 0) // as a fork has it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(forked) }()
	if _, err = openDataDir(dir, "c", ""); !errors.Is(err, ErrDataDirInUse) {
		t.Errorf("while it is open: %v", err)
	}
	if err = first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openDataDir(dir, "c", "")
	if err != nil {
		t.Fatal(err)
	}
	if err = second.close(); err != nil {
		t.Error(err)
	}
}

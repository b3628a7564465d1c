package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What jobs print is their owners': an agent closes the logs that an earlier version has left open.
func TestLogsAreClosedToOthers(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	logs := filepath.Join(path, logsDir)
	if err := os.MkdirAll(filepath.Join(logs, "j", "g00000001"), 0o755); err != nil { //nolint:gosec // as it was
		t.Fatal(err)
	}
	for range 2 {
		d, err := openDataDir(path, "n1", "")
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(logs); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("logs: %v, %v", info.Mode(), err)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(logs); err != nil { // made where there are none
			t.Fatal(err)
		}
	}
}

// A process that is being started has the directory's lock open for a moment. It
// does not keep a successor out.
func TestAForkedProcessDoesNotKeepTheDataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := openDataDir(dir, "n1", "test")
	if err != nil {
		t.Fatal(err)
	}
	forked, err := unix.FcntlInt(first.lock.Fd(), unix.F_DUPFD_CLOEXEC, 0) // as a fork has it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(forked) }()
	if _, err = openDataDir(dir, "n1", "test"); !errors.Is(err, ErrDataDirInUse) {
		t.Errorf("while it is open: %v", err)
	}
	if err = first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openDataDir(dir, "n1", "test")
	if err != nil {
		t.Fatal(err)
	}
	if err = second.close(); err != nil {
		t.Error(err)
	}
}

package host

import (
	"os"
	"path/filepath"
	"testing"
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

package warm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/sdk"
)

// WriteModules puts what Python finds by the workers' PYTHONPATH into the run directory.
func WriteModules(dir string, o run.Order) error {
	modules := map[string][]byte{sdk.FileName: sdk.Module}
	if o.Warms() {
		modules[sdk.SiteFileName], modules[sdk.AheadFileName] = sdk.WorkerSite, sdk.Ahead
		modules[sdk.EarlyFileName], modules[sdk.LeaveFileName], modules[checkFile] = sdk.Early, sdk.Leave, nil
	}
	dir = filepath.Join(dir, run.PythonDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write Python module: %w", err)
	}
	for name, source := range modules {
		path := filepath.Join(dir, name)
		// A parked process has read it, and must not find it changed.
		if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, source) {
			continue
		}
		if err := os.WriteFile(path, source, 0o644); err != nil {
			return fmt.Errorf("write Python module: %w", err)
		}
	}
	return nil
}

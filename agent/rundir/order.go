package rundir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/durable"
)

// WriteOrder makes the run directory, and writes what the agent wants of the run into it, durable.
func WriteOrder(dir string, order run.Order) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	// The owner's workers pass through to their socket and module, and see nothing else.
	if err := os.Chmod(dir, 0o711); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	if err := durable.WriteJSON(filepath.Join(dir, OrderFile), order); err != nil {
		return fmt.Errorf("write order: %w", err)
	}
	return durable.SyncDir(filepath.Dir(dir)) // or a power cut takes the directory itself
}

//go:build !race

package settings

import "os"

// program is what agents start for a run, a task or a probe: this program.
func program() (string, error) { return os.Executable() }

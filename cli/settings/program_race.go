//go:build race

package settings

import "os"

// without is the variable that names a build without the race detector, for agents that have it.
const without = "PROGRAM_WITHOUT_RACE_DETECTOR"

// program is what agents start for a run, a task or a probe. Most of these processes are short-lived, and their start takes
// four times as long with the race detector: the tests of e2e, which start thousands, name a build without it.
// Builds without the race detector, which are those for users, do not read the variable.
func program() (string, error) {
	if path := os.Getenv(without); path != "" {
		return path, nil
	}
	return os.Executable()
}

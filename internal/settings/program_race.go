//go:build race

package settings

import "os"

// without names the program without the race detector, for agents that have it.
const without = "PROGRAM_WITHOUT_RACE_DETECTOR"

// program is what agents start for a run, a task or a probe. Most of these processes live shortly, and their start takes
// four times as long with the race detector: the tests of e2e, which start thousands, name a build without it.
// No build for users has this variable.
func program() (string, error) {
	if path := os.Getenv(without); path != "" {
		return path, nil
	}
	return os.Executable()
}

package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programVariable tells agents that are processes of their own what to start.
const programVariable = "BELLOWS_TEST_PROGRAM"

// program is what the agents of tests start for runs and checkpoints. It is no process of this test binary, which is large
// and may have the race detector: to start it took eleven times as long. The tests of agent/shim run shims with the detector.
func program() string { return os.Getenv(programVariable) }

// runTests builds the program and runs the tests.
func runTests(m *testing.M) (status int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "build what agents start:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "bellows-host-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "bellows")
	build := exec.Command("go", "build", "-race=false", "-o", path, "../shim/testdata/bellows")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err = build.Run(); err != nil {
		return fail(err)
	}
	if err = os.Chmod(dir, 0o755); err != nil { // other users run the program, too
		return fail(err)
	}
	if err = os.Setenv(programVariable, path); err != nil {
		return fail(err)
	}
	return m.Run()
}

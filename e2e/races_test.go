package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// keepRaces has each process of the program that finds a race end there, and write its
// report into a folder. Without it, a race in a process that ends anyway, or whose end is
// what a test wants, would not be noticed.
func keepRaces(below string) (dir string, err error) {
	dir = filepath.Join(below, "races")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // processes of other users write reports, too
		return "", err
	}
	return dir, os.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=0 log_path="+filepath.Join(dir, "race"))
}

// racesIn returns the reports in the folder.
func racesIn(dir string) string {
	reports, _ := filepath.Glob(filepath.Join(dir, "race.*"))
	var b strings.Builder
	for _, path := range reports {
		text, err := os.ReadFile(path)
		fmt.Fprintf(&b, "a process of the program had a race, %v:\n%s\n", err, text)
	}
	return b.String()
}

// A race of the program fails the suite, whatever became of the process.
func TestRacesAreNoticed(t *testing.T) {
	t.Parallel()
	if !raced() {
		t.Skip("the race detector is off: use -race, or set " + raceVariable + "=1")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "race")
	if err := build("./testdata/race", program, true); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	settings, _, _ := strings.Cut(os.Getenv("GORACE"), "log_path=")
	cmd.Env = append(os.Environ(), "GORACE="+settings+"log_path="+filepath.Join(dir, "race"))
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("a process with a race ends with 0: %s", out)
	}
	if races := racesIn(dir); !strings.Contains(races, "WARNING: DATA RACE") {
		t.Errorf("the report of a race is %q", races)
	}
}

package sdk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/sdk"
)

// python runs a line of Python that sees the embedded module as workers do.
func python(t *testing.T, line string) string {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("no python3 on PATH: scripts/setup test installs it")
	}
	dir := t.TempDir()
	if err = os.WriteFile(filepath.Join(dir, sdk.FileName), sdk.Module, 0o444); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(interpreter, "-B", "-c", line)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "BELLOWS_WORKER_SOCKET=", "RANK=3", "WORLD_SIZE=4", "BELLOWS_BATCH_SIZE=8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestModuleIsWhatPythonImports(t *testing.T) {
	if got := python(t, "import bellows; print(bellows.rank(), bellows.world_size(), bellows.indices(1, 100, None))"); got != "3 4 [14, 15]" {
		t.Errorf("the embedded module answers %q", got)
	}
}

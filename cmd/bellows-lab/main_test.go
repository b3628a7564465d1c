package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bellows-ml/bellows/cli/command/commandtest"
)

var update = flag.Bool("update", false, "rewrite the expected files; the diff is the review")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bellows-lab": main})
}

// TestScripts runs testdata/script/*.txtar: each is a story of commands and what they say.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=0") // a race ends a command, and no command waits a second for races before it ends
			if cache, err := os.UserCacheDir(); err == nil {
				env.Setenv("CACHE", cache) // where scripts/setup put the solver
			}
			env.Setenv("BIN", filepath.SplitList(env.Getenv("PATH"))[0]) // bellows-lab, and nothing else
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": commandtest.Status},
	})
}

func TestFlags(t *testing.T) {
	commandtest.CheckFlagValues(t, newProgram().Root)
	commandtest.CheckFlagTimes(t, newProgram().Root, 10)
}

// TestDocsAreCurrent keeps docs/lab.md what the commands say.
func TestDocsAreCurrent(t *testing.T) {
	const path = "../../docs/lab.md"
	var got strings.Builder
	if err := commandtest.Docs(&got, newProgram().Root, "Commands of the laboratory", ""); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("%s is not what the commands say: go test ./cmd/bellows-lab -run Docs -update", path)
	}
}

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cli/command/commandtest"
)

func TestFlags(t *testing.T) {
	commandtest.CheckFlagValues(t, newProgram().Root)
	commandtest.CheckFlagTimes(t, newProgram().Root, 20)
}

const socketText = "\n" +
	"The agent is found by `--socket`, else `$BELLOWS_SOCKET`, else at the first of `/run/bellows/agent.sock`,\n" +
	"`$XDG_RUNTIME_DIR/bellows/agent.sock` (or, where that is not set, `/tmp/bellows-<uid>/agent.sock`) that exists.\n"

// TestDocsAreCurrent keeps docs/cli.md what the commands say.
func TestDocsAreCurrent(t *testing.T) {
	const path = "../../docs/cli.md"
	var got strings.Builder
	if err := commandtest.Docs(&got, newProgram().Root, "Commands", socketText); err != nil {
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
		t.Errorf("%s is not what the commands say: go test ./cmd/bellows -run Docs -update", path)
	}
}

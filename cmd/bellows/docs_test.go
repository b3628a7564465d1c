package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/flags"
)

// pflag takes what stands in backquotes for the name of a flag's value: one word.
func TestValuesOfFlagsHaveOneWord(t *testing.T) {
	root := newProgram().Root
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *flags.Flag) {
			if value, _ := flags.Unquote(f); strings.Contains(value, " ") {
				t.Errorf("%s --%s %s: use other quotes in its usage", cmd.CommandPath(), f.Name, value)
			}
		})
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	look(root)
}

// No flag that is a time takes one that is a slip of the pen, nor one that no time.Duration holds.
func TestTimesOfFlagsAreBounded(t *testing.T) {
	root := newProgram().Root
	seen := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *flags.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			seen++
			for _, text := range []string{"876001h", "-876001h", "99999999999h", "1h99999999999m"} {
				if err := f.Value.Set(text); err == nil || !strings.Contains(err.Error(), "h at most") {
					t.Errorf("%s --%s %s: %v", cmd.CommandPath(), f.Name, text, err)
				}
			}
			if err := f.Value.Set("20h"); err != nil || f.Value.String() != "20h0m0s" {
				t.Errorf("%s --%s 20h: %v, %s", cmd.CommandPath(), f.Name, err, f.Value)
			}
			if err := f.Value.Set("soon"); err == nil || strings.Contains(err.Error(), "at most") {
				t.Errorf("%s --%s soon: %v", cmd.CommandPath(), f.Name, err)
			}
		})
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	if look(root); seen < 20 {
		t.Errorf("%d flags are times", seen)
	}
}

const socketText = "\n" +
	"The agent is found by `--socket`, else `$BELLOWS_SOCKET`, else at the first of `/run/bellows/agent.sock`,\n" +
	"`$XDG_RUNTIME_DIR/bellows/agent.sock` (or, where that is not set, `/tmp/bellows-<uid>/agent.sock`) that exists.\n"

// TestDocsAreCurrent keeps docs/cli.md what the commands say.
func TestDocsAreCurrent(t *testing.T) {
	const path = "../../docs/cli.md"
	var got strings.Builder
	if err := newProgram().Docs(&got, "Commands", socketText); err != nil {
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

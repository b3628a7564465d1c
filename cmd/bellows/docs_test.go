package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/internal/flags"
)

// pflag takes what stands in backquotes for the name of a flag's value: one word.
func TestValuesOfFlagsHaveOneWord(t *testing.T) {
	root, _ := newRoot()
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

// TestDocsAreCurrent keeps docs/cli.md what `bellows internal docs` prints.
func TestDocsAreCurrent(t *testing.T) {
	const path = "../../docs/cli.md"
	root, _ := newRoot()
	var got strings.Builder
	if err := writeDocs(&got, root); err != nil {
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

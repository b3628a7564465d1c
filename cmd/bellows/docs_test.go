package main

import (
	"os"
	"strings"
	"testing"
)

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

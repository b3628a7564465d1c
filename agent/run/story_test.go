package run_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected lines of the stories")

// TestStories plays each script: a line is something that happens, and the indented lines below it are what the run does
// and reports then.
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Fatalf("the story goes differently (go test ./agent/run -update, then read the diff):\n%s", got)
			}
		})
	}
}

func play(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	s := &stage{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if !s.play(words) {
			t.Fatalf("%q: a story has no such event", line)
		}
		for _, said := range s.said {
			out.WriteString("  " + said + "\n")
		}
		s.said = nil
	}
	return out.String()
}

package coordinator_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected lines of the stories; the diff is the review")

// storyRuns exposes answers that depend on the order of a map: one of two equally likely
// orders is missed once in half a million.
const storyRuns = 20

// A story is events, each followed by the indented lines of what the coordinator answered.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				got := tell(string(want))
				if _, wrong, ok := strings.Cut(got, "\n  ERROR "); ok {
					t.Fatalf("not rewritten: %s", wrong)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				want = []byte(got)
			}
			for range storyRuns {
				if got := tell(string(want)); got != string(want) {
					t.Fatalf("the story goes otherwise (go test ./coordinator -update shows the difference):\n%s", firstDifference(string(want), got))
				}
			}
		})
	}
}

// tell runs the story's events and returns it with what was answered.
func tell(text string) string {
	l := newLab()
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue // an old answer
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := l.do(line); err != nil {
			fmt.Fprintf(&out, "  ERROR %v\n", err)
		}
		for _, answer := range l.answers() {
			out.WriteString("  " + answer + "\n")
		}
	}
	return out.String()
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			have := "(nothing)"
			if i < len(g) {
				have = g[i]
			}
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], have)
		}
	}
	return fmt.Sprintf("line %d\ngot  %s more", len(w), g[len(w)])
}

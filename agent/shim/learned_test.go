package shim

import (
	"path/filepath"
	"slices"
	"testing"
)

// A lesson holds for one warm start, and for four times as many each time that it is learned again.
func TestLessonsAreForgotten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "learned")
	for times, holds := range []int{1, 4, 16} {
		learn(file, "path /edited")
		for n := range holds {
			if got := readLearned(file).active(); !slices.Equal(got, []string{"path /edited"}) {
				t.Fatalf("learned %d times, after %d warm starts: %q", times+1, n, got)
			}
			startedWarm(file)
		}
		if got := readLearned(file).active(); len(got) != 0 {
			t.Fatalf("learned %d times, after %d warm starts: %q, want nothing", times+1, holds, got)
		}
	}
	learn(file, "import ends")
	if got := readLearned(file).active(); !slices.Equal(got, []string{"import ends"}) {
		t.Errorf("a lesson of its own: %q", got)
	}
}

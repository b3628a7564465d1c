package warm

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
		Learn(file, "path /edited")
		for n := range holds {
			if got := ReadLearned(file).Active(); !slices.Equal(got, []string{"path /edited"}) {
				t.Fatalf("learned %d times, after %d warm starts: %q", times+1, n, got)
			}
			Started(file)
		}
		if got := ReadLearned(file).Active(); len(got) != 0 {
			t.Fatalf("learned %d times, after %d warm starts: %q, want nothing", times+1, holds, got)
		}
	}
	Learn(file, "import ends")
	if got := ReadLearned(file).Active(); !slices.Equal(got, []string{"import ends"}) {
		t.Errorf("a lesson of its own: %q", got)
	}
}

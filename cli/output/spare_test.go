package output

import (
	"strings"
	"testing"
)

// A terminal does without the spare columns that hold nothing, and without as many others
// as leave the last column readable; what is written elsewhere has all of them.
func TestSpareColumnsGiveWayToTheLast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, "A B C D WHY"},
		{120, "A B D WHY"}, // nothing is in C
		{49, "A B D WHY"},
		{40, "A B WHY"},
		{30, "A WHY"},
		{5, "A WHY"},
	} {
		table := Table{Head: []string{"A", "B", "C", "D", "WHY"}, Spare: []string{"D", "C", "B"}}
		table.Add("aaa", "bbbbbbb", "-", "ddddddd", strings.Repeat("why ", 10))
		var out strings.Builder
		if err := table.Write(&out, Style{Terminal: c.width > 0, Width: c.width}); err != nil {
			t.Fatal(err)
		}
		head, row, _ := strings.Cut(out.String(), "\n")
		if got := strings.Join(strings.Fields(head), " "); got != c.want {
			t.Errorf("%d columns: %q, want %q", c.width, got, c.want)
		}
		if strings.Contains(row, "ddd") != strings.Contains(c.want, "D") {
			t.Errorf("%d columns: the row is %q", c.width, row)
		}
	}
}

package render

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
)

// A terminal is told where a generation begins, a file gets the workers' lines
// alone, and both learn what is missing beside them.
func TestLogWriter(t *testing.T) {
	t.Parallel()
	lines := []api.LogLine{
		{Generation: 1, Rank: 0, Text: "a\a"},
		{Generation: 1, Rank: 1, Text: "b"},
		{Generation: 2, Rank: 0, Text: "c"},
		{Generation: 2, Rank: -1, Notice: "node n2: gone", Missing: true},
	}
	const first = "── generation 1 ──"
	for _, c := range []struct {
		w     Logs
		lines []api.LogLine
		want  string
	}{
		{Logs{Style: output.Style{Terminal: true}}, lines, "[0] a\n[1] b\n── generation 2 ──\n[0] c\n"},
		{Logs{Style: output.Style{Terminal: true}}, lines[2:], "── generation 2 ──\n[0] c\n"},
		{Logs{}, lines, "[0] a\a\n[1] b\n[0] c\n"},
		{Logs{Bare: true}, lines[:1], "a\a\n"},
	} {
		var out, msg strings.Builder
		c.w.Out, c.w.Msg = &out, &msg
		for _, l := range c.lines {
			if err := c.w.Line(l); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != c.want || strings.Contains(out.String(), first) {
			t.Errorf("got %q, want %q", out.String(), c.want)
		}
		if lost := len(c.lines) > 1; c.w.Missing != lost || lost != (msg.String() == "bellows: node n2: gone\n") {
			t.Errorf("missing %t, said %q", c.w.Missing, msg.String())
		}
	}
}

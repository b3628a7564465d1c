package saves

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/run"
)

func TestSavesApart(t *testing.T) {
	t.Parallel()
	at := func(rank int, steps ...int64) (list []run.Save) {
		for _, step := range steps {
			list = append(list, run.Save{Step: step, Rank: rank})
		}
		return list
	}
	for name, c := range map[string]struct {
		saves [][]run.Save
		ranks []int
		want  string
	}{
		"none":                      {ranks: []int{0, 1}},
		"one rank":                  {saves: [][]run.Save{at(0, 1, 2, 3)}, ranks: []int{0}},
		"all alike":                 {saves: [][]run.Save{at(2, 1, 2, 3), at(3, 1, 2, 3)}, ranks: []int{2, 3}},
		"one is still writing":      {saves: [][]run.Save{at(0, 1, 2, 3), at(1, 1, 2)}, ranks: []int{0, 1}},
		"one begins to save":        {saves: [][]run.Save{at(0, 1)}, ranks: []int{0, 1}},
		"rank 0 alone":              {saves: [][]run.Save{at(0, 1, 2)}, ranks: []int{0, 1}, want: "rank 0 saves steps that rank 1 does not"},
		"at different steps":        {saves: [][]run.Save{at(0, 20, 40), at(1, 21, 41)}, ranks: []int{0, 1}, want: "rank 0 saves steps that rank 1 does not"},
		"apart since a while":       {saves: [][]run.Save{at(4, 1, 2, 3), at(5, 1, 2, 3), at(6, 1)}, ranks: []int{4, 5, 6}, want: "rank 4 saves steps that rank 6 does not"},
		"apart, and together again": {saves: [][]run.Save{at(0, 1, 2, 3), at(1, 3)}, ranks: []int{0, 1}},
		"missed one":                {saves: [][]run.Save{at(0, 1, 2, 3), at(1, 1, 3)}, ranks: []int{0, 1}},
	} {
		var all []run.Save
		for _, s := range c.saves {
			all = append(all, s...)
		}
		if got := savesApart(all, c.ranks); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

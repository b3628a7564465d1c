package host

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func TestRunDirectoriesAreToldApart(t *testing.T) {
	t.Parallel()
	long := cluster.JobID(strings.Repeat("long-name-", 5) + "abcdef")
	for _, job := range []cluster.JobID{"a", "train-abcdef", long} {
		jg, next := generationOf(job, 7), generationOf(job, 17)
		first, second := runName(jg, "11112222"), runName(jg, "33334444")
		if first == second || first == runName(next, "11112222") || len(first) > runReadable+runHash+len("--g7") {
			t.Errorf("%s: %s, %s", job, first, second)
		}
		if !mayName(first, jg) || !mayName(second, jg) || mayName(first, next) || mayName(runName(next, ""), jg) {
			t.Errorf("%s: %s is not known by its generation alone", job, first)
		}
	}
	if got := runName(generationOf("train-abcdef", 2), ""); got != "train-abcdef-d89d7349-g2" {
		t.Errorf("a run directory of an earlier version would not be known: %s", got)
	}
}

package batch

import (
	"slices"

	"github.com/bellows-ml/bellows/cluster"
)

// Baseline is the policy that Compare compares with.
const Baseline = "greedy"

// Compare sets the fields of runs that need another run, of the baseline.
func Compare(runs []*Run) {
	for _, base := range runs {
		if base.Policy != Baseline {
			continue
		}
		at, ok := base.Result.NthEnd(100)
		for _, r := range runs {
			if r.Trace != base.Trace || r.Nodes != base.Nodes {
				continue
			}
			if ok {
				more := r.Result.FinishedBy(at) - 100
				r.AdditionalJobsAt100 = &more
			}
			if theirs, own := completionsOfBoth(base, r); own > 0 {
				more := 100 * (theirs/own - 1)
				r.AdditionalJobsPer100 = &more
			}
		}
	}
}

// completionsOfBoth adds up the completions of the jobs that finished in both of
// two runs of the same jobs. Where users stop jobs, the faster policy finishes
// more of them, long ones above all, and its mean over all would look worse.
func completionsOfBoth(a, b *Run) (x, y float64) {
	for i, o := range a.Result.Jobs {
		if p := b.Result.Jobs[i]; o.Phase == cluster.Succeeded && p.Phase == cluster.Succeeded {
			x += (o.End - o.Submit).Seconds()
			y += (p.End - p.Submit).Seconds()
		}
	}
	return x, y
}

// Policies lists the policies of the runs in their order, each once.
func Policies(runs []*Run) []string {
	var out []string
	for _, r := range runs {
		if !slices.Contains(out, r.Policy) {
			out = append(out, r.Policy)
		}
	}
	return out
}

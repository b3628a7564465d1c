package reproduce

import (
	"path/filepath"
	"slices"

	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/sim"
)

// huVariant is one of the experiments of Hu et al.
type huVariant struct {
	figure string
	flags  []string
	most   float64 // how many more jobs per 100 of greedy's the optimum trains at most, as published; 0 = not published
	note   string
	times  bool   // figures 9 and 10 are of its runs too
	drawn  bool   // needs all jobs, and the windows have only the long ones
	less   string // the figure that it is compared with in the paper
	fewer  string // the range of the difference that was published
}

// huVariants are figures 11 to 15: first with a pause at each start and rescale,
// and then as in the paper, where a start costs time in figure 15 only.
func huVariants() []huVariant {
	const plain, free = "11", "11, no pause"
	return []huVariant{
		{figure: plain, most: 17.4, note: "at most, at 110", times: true},
		{figure: "12", flags: []string{"--shortest", "0s"}, most: 24.1, note: "at most", drawn: true},
		{figure: "13", flags: []string{"--eta-noise", "0.1"}, less: plain, fewer: "published: 0.6 to 2.4"},
		{figure: "14", flags: []string{"--eta-noise", "0.1", "--buggy", "0.15", "--terminated", "0.1"}, most: 15.0, note: "at most"},
		{figure: "15", flags: []string{"--start-delay", "15s"}, less: plain, fewer: "published: -0.9 to 1.8"},
		{figure: free, flags: []string{"--rescale-cost", "0s"}, most: 17.4, note: "at most, at 110"},
		{figure: "15, no pause", flags: []string{"--rescale-cost", "0s", "--start-delay", "15s"}, less: free, fewer: "published: -0.9 to 1.8"},
	}
}

func huTrials(dir string, quick bool) ([]trial, error) {
	traces := []string{sim.SyntheticName, filepath.Join(dir, "philly", "win_2017-09-24_2d_allvc_ge5min.csv"), filepath.Join(dir, "philly", "win_2017-09-28_2d_allvc_ge5min.csv")}
	nodes, policies := "70,90,110,130,150,170,190", "greedy,hu,hesrpt,hesrpt-steady"
	if quick {
		traces, nodes, policies = traces[:1], "70,110,150", "greedy,hu"
	}
	var out []trial
	for _, name := range traces {
		more := map[string][]Finding{} // by figure; trials are read in their order
		for _, v := range huVariants() {
			if v.drawn && name != sim.SyntheticName {
				continue
			}
			args := append([]string{"--rules", "hu", "--trace", name, "--nodes", nodes, "--policy", policies}, v.flags...)
			out = append(out, trial{args: args, read: func(runs []*batch.Run) []Finding {
				more[v.figure] = huMore(runs, v)
				rows := slices.Concat(more[v.figure], huFewer(more[v.less], more[v.figure], v))
				if v.times {
					rows = slices.Concat(huTimes(runs), rows, huDecisions(runs))
				}
				return rows
			}})
		}
	}
	return out, nil
}

// huTimes are figures 9 and 10.
func huTimes(runs []*batch.Run) []Finding {
	var rows []Finding
	for _, r := range runs {
		rows = append(rows, finding(r, "9", "mean queueing, s", r.MeanQueueingS))
	}
	for _, r := range runs {
		base := baseOf(runs, r)
		if r.Policy == batch.Baseline || base == nil || base.MeanQueueingS == 0 {
			continue
		}
		row := finding(r, "9", "queueing against greedy, %", 100*(r.MeanQueueingS/base.MeanQueueingS-1))
		if r.Policy == "hu" && r.Nodes == 150 {
			published := -32.0
			row.Published, row.Note = &published, "their best"
		}
		rows = append(rows, row)
	}
	for _, r := range runs {
		rows = append(rows, finding(r, "10", "mean completion, s", r.MeanCompletionS))
	}
	return rows
}

// baseOf finds greedy's run at the same size.
func baseOf(runs []*batch.Run, r *batch.Run) *batch.Run {
	i := slices.IndexFunc(runs, func(b *batch.Run) bool { return b.Policy == batch.Baseline && b.Trace == r.Trace && b.Nodes == r.Nodes })
	if i < 0 {
		return nil
	}
	return runs[i]
}

// huMore are figures 11 to 15: jobs beyond each 100 of greedy's.
func huMore(runs []*batch.Run, v huVariant) []Finding {
	var rows []Finding
	best := -1
	for _, r := range runs {
		if r.AdditionalJobsPer100 == nil || r.Policy == batch.Baseline {
			continue
		}
		rows = append(rows, finding(r, v.figure, "more jobs per 100 of greedy's", *r.AdditionalJobsPer100))
		if r.Policy == "hu" && (best < 0 || rows[len(rows)-1].Ours > rows[best].Ours) {
			best = len(rows) - 1
		}
	}
	if best >= 0 && v.most > 0 {
		rows[best].Published, rows[best].Note = &v.most, v.note
	}
	return rows
}

// huFewer is how many fewer jobs an experiment trains than the one it is compared with.
func huFewer(without, with []Finding, v huVariant) []Finding {
	var rows []Finding
	for _, w := range with {
		i := slices.IndexFunc(without, func(f Finding) bool { return f.Policy == w.Policy && f.Nodes == w.Nodes })
		if i < 0 {
			continue
		}
		w.Quantity, w.Ours = "of them fewer than in figure "+v.less, without[i].Ours-w.Ours
		if w.Policy == "hu" {
			w.Note = v.fewer
		}
		rows = append(rows, w)
	}
	return rows
}

// huDecisions is figure 16: how long deciding takes at the smallest size.
func huDecisions(runs []*batch.Run) []Finding {
	i := slices.IndexFunc(runs, func(r *batch.Run) bool { return r.Policy == "hu" })
	if i < 0 {
		return nil
	}
	r := runs[i]
	var ms []float64
	for _, d := range r.Result.DecisionTimes {
		ms = append(ms, d.Seconds()*1000)
	}
	var rows []Finding
	for _, x := range []struct {
		what             string
		value, published float64
	}{
		{"mean", r.DecisionMSMean, 400}, {"median", sim.Quantile(ms, 0.5), 240}, {"95th percentile", sim.Quantile(ms, 0.95), 1490}, {"most", sim.Quantile(ms, 1), 2480},
	} {
		rows = append(rows, finding(r, "16", "decision, "+x.what+", ms", x.value).against(&x.published))
	}
	return rows
}

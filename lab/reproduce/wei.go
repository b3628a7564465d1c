package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/sim"
)

// weiPublished is Table 2: by how much less time all takes, the older task and the younger
// one, in per cent, with adjustment against without; by the batch.
var weiPublished = map[string]weiRow{"128": {-2.72, -23.01, -4.03}, "512": {-4.70, -12.76, -7.26}}

// weiRow are the times of a run, or how much they differ from another's.
type weiRow struct{ total, older, younger float64 }

// weiTotals are the seconds that all take in the paper with 512 a task, which it prints.
var weiTotals = map[string]float64{"share": 567.50, "convergence": 540.81}

func weiTrials(_ string, quick bool) ([]trial, error) {
	var out []trial
	for _, tasks := range []struct{ name, nodes string }{{"pair", "1"}, {"eight", "8"}} {
		for _, kind := range []string{"512-implied", "128-implied", "512-power", "128-power"} {
			if quick && (tasks.name != "pair" || !strings.HasPrefix(kind, "512")) {
				continue
			}
			args := []string{"--rules", "wei", "--trace", tasks.name + "-" + kind, "--nodes", tasks.nodes, "--policy", "share,convergence,flowtime"}
			out = append(out, trial{args: args, read: weiFigures})
		}
	}
	return out, nil
}

// weiFigures are the times of the runs of a load, and how they differ from those of the first, which
// is without adjustment. Of more than two tasks, the older and the younger are the halves of all.
func weiFigures(runs []*batch.Run) (rows []Finding) {
	without := weiTimes(runs[0].Result.Jobs)
	name := strings.Split(runs[0].Trace, "-")
	pair := name[0] == "pair"
	for i, r := range runs {
		is := weiTimes(r.Result.Jobs)
		total := finding(r, "11, 12", "all end after, s", is.total)
		if s, ok := weiTotals[r.Policy]; ok && pair && name[1] == "512" {
			total = total.against(&s)
		}
		rows = append(rows, total, finding(r, "10, 12", "older, s", is.older), finding(r, "10, 12", "younger, s", is.younger))
		if i == 0 {
			continue
		}
		published := weiPublished[name[1]]
		for _, d := range []struct {
			of                   string
			is, without, printed float64
		}{
			{"all", is.total, without.total, published.total},
			{"older", is.older, without.older, published.older},
			{"younger", is.younger, without.younger, published.younger},
		} {
			f := finding(r, "Table 2", d.of+", against share, %", 100*(d.is/d.without-1))
			if pair && r.Policy == "convergence" {
				f = f.against(&d.printed)
				f.Note = fmt.Sprintf("%+.2f points", f.Ours-d.printed)
			}
			rows = append(rows, f)
		}
	}
	return rows
}

// weiTimes are the seconds until all have ended, and from the submission to the end of a task of each half, on average.
func weiTimes(jobs []sim.Outcome) (t weiRow) {
	half := len(jobs) / 2
	last := slices.MaxFunc(jobs, func(a, b sim.Outcome) int { return int(a.End - b.End) })
	t.total = (last.End - jobs[0].Submit).Seconds()
	t.older, t.younger = weiMean(jobs[:half]), weiMean(jobs[half:])
	return t
}

func weiMean(jobs []sim.Outcome) (mean float64) {
	for _, o := range jobs {
		mean += (o.End - o.Submit).Seconds() / float64(len(jobs))
	}
	return mean
}

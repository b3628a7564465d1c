package reproduce

import (
	"strings"

	"github.com/bellows-ml/bellows/lab/batch"
)

// saxenaPublished are Tables III (the simulator's columns) and IV: efficiency and drops in per cent,
// mean completion in minutes.
var saxenaPublished = []struct {
	figure, load, nodes string
	of                  map[string]saxenaRow
}{
	{"IV", "bursts-8h-0.9", "200", map[string]saxenaRow{
		"elastic-drop": {81.00, 1.23, 22.83}, "baseline-drop": {46.64, 38.28, 27.84},
		"elastic-queue": {81.53, 0, 22.96}, "baseline-queue": {43.10, 0, 166.82},
	}},
	{"III", "bursts-12h-1.1", "20", map[string]saxenaRow{
		"elastic-drop": {80.46, 10.09, 22.98}, "baseline-drop": {50.49, 39.57, 28.10},
		"elastic-queue": {86.03, 0, 27.75}, "baseline-queue": {41.94, 0, 320.32},
	}},
}

// saxenaRow is a row of the tables; no drops are of queues.
type saxenaRow struct{ efficiency, drops, minutes float64 }

func saxenaTrials(_ string, quick bool) ([]trial, error) {
	var out []trial
	for _, p := range saxenaPublished {
		args := []string{
			"--rules", "saxena", "--trace", p.load, "--nodes", p.nodes, "--devices-per-node", "2", "--interval", "8m",
			"--policy", "elastic-drop,baseline-drop,elastic-queue,baseline-queue,saxena,flowtime",
		}
		if quick {
			args[3] = strings.NewReplacer("8h", "30m", "12h", "2h").Replace(p.load)
		}
		out = append(out, trial{args: args, read: func(runs []*batch.Run) []Finding {
			var rows []Finding
			for _, r := range runs {
				published, known := p.of[r.Policy]
				against := func(v float64) *float64 {
					if !known || quick {
						return nil
					}
					return &v
				}
				if known { // what production's policies do is counted in steps at the smallest batch
					rows = append(rows, finding(r, p.figure, "scaling efficiency, %", 100*r.ScalingEfficiency).against(against(published.efficiency)))
				}
				if published.drops > 0 {
					rows = append(rows, finding(r, p.figure, "jobs dropped, %", 100*float64(r.Dropped)/float64(r.Jobs)).against(against(published.drops)))
				}
				rows = append(rows, finding(r, p.figure, "mean completion, min", r.MeanCompletionS/60).against(against(published.minutes)))
			}
			return rows
		}})
	}
	return out, nil
}

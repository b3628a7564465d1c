package reproduce

import (
	"path/filepath"

	"github.com/bellows-ml/bellows/lab/batch"
)

// muriPublished are mean completions in seconds from Muri's artifact
// (simulator/draw_fig9-10.py): of a trace as it is, and with all jobs submitted at once.
var muriPublished = []struct {
	trace  string
	atOnce bool
	mean   map[string]float64
}{
	{"philly_vc_trace3.csv", false, map[string]float64{"srtf": 193081.796, "srsf": 185021.880, "tiresias": 347213.248}},
	{"philly_vc_trace3.csv", true, map[string]float64{"srtf": 844395, "srsf": 798058, "tiresias": 2213110}},
	{"philly_vc_trace1.csv", false, map[string]float64{"srtf": 1370603, "srsf": 980141, "tiresias": 3330371}},
	{"philly_vc_trace1.csv", true, map[string]float64{"srtf": 2303544, "srsf": 1801860, "tiresias": 6921683}},
}

func muriTrials(dir string, quick bool) ([]trial, error) {
	var out []trial
	for i, p := range muriPublished {
		if quick && i > 0 {
			break
		}
		args := []string{"--rules", "muri", "--trace", filepath.Join(dir, "muri", p.trace), "--nodes", "8", "--devices-per-node", "8", "--policy", "srtf,srsf,tiresias"}
		figure := "9"
		if p.atOnce {
			args, figure = append(args, "--at-once"), "10"
		}
		out = append(out, trial{args: args, read: func(runs []*batch.Run) []Finding {
			var rows []Finding
			for _, r := range runs {
				published := p.mean[r.Policy]
				rows = append(rows, finding(r, figure, "mean completion, s", r.MeanCompletionS).against(&published))
			}
			return rows
		}})
	}
	return out, nil
}

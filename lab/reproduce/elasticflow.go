package reproduce

import (
	"fmt"
	"path/filepath"

	"github.com/bellows-ml/bellows/lab/batch"
)

// elasticFlowPublished are shares of kept deadlines, from ElasticFlow's
// artifact (plot_figure of github.com/pkusys/ElasticFlow).
var elasticFlowPublished = []elasticFlowFigure{
	{"8b", "itp_cluster10.csv", onNodes("32"), map[string]float64{"edf": 0.769, "elasticflow": 0.981, "tiresias": 0.473, "gandiva": 0.354}, 0.9615, ""},
	{
		"8a", "fig8a_195job_t4.csv",
		[]string{"--profile", "elasticflow_t4.csv", "--nodes", "16", "--devices-per-node", "4"},
		map[string]float64{"edf": 0.118, "elasticflow": 0.728, "tiresias": 0.287, "gandiva": 0.09},
		0.7282, "",
	},
	{"8b", "itp_cluster01.csv", onNodes("64"), map[string]float64{"edf": 0.182, "elasticflow": 0.788, "tiresias": 0.478, "gandiva": 0.246}, 0, ""},
	{"8b", "itp_cluster05.csv", onNodes("64"), map[string]float64{"edf": 0.375, "elasticflow": 0.832, "tiresias": 0.420, "gandiva": 0.228}, 0, ""},
	{"8b", "itp_cluster02.csv.gz", onNodes("64"), map[string]float64{"edf": 0.228, "elasticflow": 0.822, "tiresias": 0.470, "gandiva": 0.286}, 0, ""},
	{
		"8b", "philly_103959.csv", onNodes("32"),
		map[string]float64{"edf": 0.01, "elasticflow": 0.87, "tiresias": 0.32, "gandiva": 0.15},
		0.9098, "on a cluster of unstated size",
	},
	{"9", "gen_1000jobs_lam1500_seed0.csv", slots("8"), map[string]float64{"edf": 0.026, "edf-admission": 0.203, "elasticflow": 0.926}, 0.938, drawnAnew},
	{"9", "gen_1000jobs_lam1500_seed0.csv", slots("16"), map[string]float64{"edf": 0.118, "edf-admission": 0.326, "elasticflow": 0.949}, 0.948, drawnAnew},
	{"9", "gen_1000jobs_lam1500_seed0.csv", slots("32"), map[string]float64{"edf": 0.118, "edf-admission": 0.658, "elasticflow": 0.944}, 0.957, drawnAnew},
	{"10", "gen_100jobs_lam1500_seed1_minddl1.5.csv", slots("16"), map[string]float64{"edf": 0.92, "edf-admission": 0.92, "elasticflow": 1, "tiresias": 1, "gandiva": 0.76}, 1, drawnAnew},
}

type elasticFlowFigure struct {
	figure string
	trace  string
	args   []string
	kept   map[string]float64
	// simulated is what its simulator gives for elasticflow on this very file; 0 = it was not run to the end.
	simulated float64
	note      string
}

// drawnAnew is why figures 9 and 10 agree in magnitude only: the script that draws
// their trace gives another one where folders are listed in another order.
const drawnAnew = "on another draw of the trace"

func onNodes(n string) []string {
	return []string{"--profile", "elasticflow_a100.csv", "--nodes", n, "--devices-per-node", "8"}
}

func slots(n string) []string { return append(onNodes(n), "--interval", "4m") }

// elasticFlowPolicies are those of its simulator, and then production's: ElasticFlow's and the default.
const elasticFlowPolicies = "edf,edf-admission,elasticflow,tiresias,gandiva,production/elasticflow," + batch.DefaultPolicy

func elasticFlowTrials(dir string, quick bool) ([]trial, error) {
	var out []trial
	for i, p := range elasticFlowPublished {
		if quick && i > 0 {
			break
		}
		args := append([]string{"--rules", "elasticflow", "--trace", filepath.Join(dir, "elasticflow", p.trace)}, p.args...)
		args[5] = filepath.Join(dir, "profiles", args[5])
		out = append(out, trial{args: append(args, "--policy", elasticFlowPolicies), read: p.findings})
	}
	return out, nil
}

func (p elasticFlowFigure) findings(runs []*batch.Run) []Finding {
	var rows []Finding
	for _, r := range runs {
		if r.DeadlineSatisfied == nil {
			continue
		}
		row := finding(r, p.figure, "deadlines kept", *r.DeadlineSatisfied)
		kept, published := p.kept[r.Policy]
		switch {
		case r.Policy == "elasticflow" && p.simulated > 0:
			row.Published, row.Note = &p.simulated, fmt.Sprintf("its simulator's on this file; published: %.3f", kept)
		case published:
			row.Published, row.Note = &kept, p.note
		}
		rows = append(rows, row, finding(r, p.figure, "mean completion, s", r.MeanCompletionS))
	}
	return rows
}

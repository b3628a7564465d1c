package main

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/lab/sim"
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
		out = append(out, trial{args: args, read: func(runs []*simulated) []finding {
			var rows []finding
			for _, r := range runs {
				published := p.mean[r.Policy]
				rows = append(rows, r.finding(figure, "mean completion, s", r.MeanCompletionS, &published))
			}
			return rows
		}})
	}
	return out, nil
}

// finding begins a row about a run.
func (r *simulated) finding(figure, quantity string, ours float64, published *float64) finding {
	return finding{Figure: figure, Trace: r.Trace, Nodes: r.Nodes, Policy: r.Policy, Quantity: quantity, Ours: ours, Published: published}
}

// polluxTrials compares with the completions of each job that Pollux's authors ship.
func polluxTrials(dir string, quick bool) ([]trial, error) {
	published, err := readPolluxPublished(filepath.Join(dir, "pollux", "published_jcts.csv.gz"))
	if err != nil {
		return nil, withTraces(err)
	}
	var out []trial
	for _, load := range []string{"1.0", "0.5", "1.5", "2.0"} {
		for _, workload := range []string{"workload-6", "workload-1", "workload-3", "workload-5"} {
			if quick && len(out) > 0 {
				return out, nil
			}
			name := filepath.Join(dir, "pollux", "load"+load+"_"+workload+".csv")
			args := []string{
				"--rules", "pollux", "--trace", name, "--profile", filepath.Join(dir, "profiles"),
				"--nodes", "16", "--devices-per-node", "4", "--policy", "tiresias,optimus",
			}
			out = append(out, trial{args: args, read: func(runs []*simulated) []finding {
				var rows []finding
				for _, r := range runs {
					var want *float64
					if mean, ok := published[r.Policy+" "+load+" "+workload]; ok {
						want = &mean
					}
					rows = append(rows, r.finding("8a, load "+load, "mean completion, s", r.MeanCompletionS, want))
				}
				return rows
			}})
		}
	}
	return out, nil
}

// readPolluxPublished reads mean completions by policy, load and workload.
func readPolluxPublished(name string) (map[string]float64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, fault.Reason(err))
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: unzip: %w", name, err)
	}
	rows, err := csv.NewReader(unzipped).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	sum, count := map[string]float64{}, map[string]float64{}
	for i, row := range rows {
		if i == 0 && strings.Join(row, ",") != "policy,load,workload,job_id,jct_s" {
			return nil, fmt.Errorf("%s:1: columns %.100q: use policy,load,workload,job_id,jct_s", name, strings.Join(row, ","))
		}
		if i == 0 {
			continue
		}
		v, err := strconv.ParseFloat(row[4], 64)
		if err != nil || v <= 0 {
			return nil, fmt.Errorf("%s:%d: jct_s %.20q: use seconds above zero", name, i+1, row[4])
		}
		key := strings.Join(row[:3], " ")
		sum[key] += v
		count[key]++
	}
	for key := range sum {
		sum[key] /= count[key]
	}
	return sum, nil
}

// huVariant is one of the experiments of Hu et al.
type huVariant struct {
	figure string
	flags  []string
	most   float64 // by how much more the optimum does than greedy, at most, as published; 0 = not
	note   string
	times  bool   // figures 9 and 10 are of its runs too
	drawn  bool   // needs all jobs, of which the windows have only the long ones
	less   string // the figure of which a difference was published
	fewer  string // and between what it lies
}

// huVariants are figures 11 to 15: at first with a pause at each start and
// rescale, and then as the paper has it, where nothing is lost but in figure 15.
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
		more := map[string][]finding{} // by figure; trials are read in their order
		for _, v := range huVariants() {
			if v.drawn && name != sim.SyntheticName {
				continue
			}
			args := append([]string{"--rules", "hu", "--trace", name, "--nodes", nodes, "--policy", policies}, v.flags...)
			out = append(out, trial{args: args, read: func(runs []*simulated) []finding {
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
func huTimes(runs []*simulated) []finding {
	var rows []finding
	for _, r := range runs {
		rows = append(rows, r.finding("9", "mean queueing, s", r.MeanQueueingS, nil))
	}
	for _, r := range runs {
		base := baseOf(runs, r)
		if r.Policy == baseline || base == nil || base.MeanQueueingS == 0 {
			continue
		}
		row := r.finding("9", "queueing against greedy, %", 100*(r.MeanQueueingS/base.MeanQueueingS-1), nil)
		if r.Policy == "hu" && r.Nodes == 150 {
			published := -32.0
			row.Published, row.Note = &published, "their best"
		}
		rows = append(rows, row)
	}
	for _, r := range runs {
		rows = append(rows, r.finding("10", "mean completion, s", r.MeanCompletionS, nil))
	}
	return rows
}

// baseOf finds greedy's run at the same size.
func baseOf(runs []*simulated, r *simulated) *simulated {
	i := slices.IndexFunc(runs, func(b *simulated) bool { return b.Policy == baseline && b.Trace == r.Trace && b.Nodes == r.Nodes })
	if i < 0 {
		return nil
	}
	return runs[i]
}

// huMore are figures 11 to 15: jobs beyond each 100 of greedy's.
func huMore(runs []*simulated, v huVariant) []finding {
	var rows []finding
	best := -1
	for _, r := range runs {
		if r.AdditionalJobsPer100 == nil || r.Policy == baseline {
			continue
		}
		rows = append(rows, r.finding(v.figure, "more jobs per 100 of greedy's", *r.AdditionalJobsPer100, nil))
		if r.Policy == "hu" && (best < 0 || rows[len(rows)-1].Ours > rows[best].Ours) {
			best = len(rows) - 1
		}
	}
	if best >= 0 && v.most > 0 {
		rows[best].Published, rows[best].Note = &v.most, v.note
	}
	return rows
}

// huFewer is by how many jobs an experiment falls short of the one without its trouble.
func huFewer(without, with []finding, v huVariant) []finding {
	var rows []finding
	for _, w := range with {
		i := slices.IndexFunc(without, func(f finding) bool { return f.Policy == w.Policy && f.Nodes == w.Nodes })
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
func huDecisions(runs []*simulated) []finding {
	i := slices.IndexFunc(runs, func(r *simulated) bool { return r.Policy == "hu" })
	if i < 0 {
		return nil
	}
	r := runs[i]
	var ms []float64
	for _, d := range r.result.DecisionTimes {
		ms = append(ms, d.Seconds()*1000)
	}
	var rows []finding
	for _, x := range []struct {
		what            string
		ours, published float64
	}{
		{"mean", r.DecisionMSMean, 400}, {"median", sim.Quantile(ms, 0.5), 240}, {"95th percentile", sim.Quantile(ms, 0.95), 1490}, {"most", sim.Quantile(ms, 1), 2480},
	} {
		rows = append(rows, r.finding("16", "decision, "+x.what+", ms", x.ours, &x.published))
	}
	return rows
}

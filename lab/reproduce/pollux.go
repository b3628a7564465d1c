package reproduce

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/file"
)

// polluxTrials compares with the completions of each job that Pollux's authors ship.
func polluxTrials(dir string, quick bool) ([]trial, error) {
	published, err := file.Read(filepath.Join(dir, "pollux", "published_jcts.csv.gz"), readPolluxPublished)
	if err != nil {
		return nil, err
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
			out = append(out, trial{args: args, read: func(runs []*batch.Run) []Finding {
				var rows []Finding
				for _, r := range runs {
					var want *float64
					if mean, ok := published[r.Policy+" "+load+" "+workload]; ok {
						want = &mean
					}
					rows = append(rows, finding(r, "8a, load "+load, "mean completion, s", r.MeanCompletionS).against(want))
				}
				return rows
			}})
		}
	}
	return out, nil
}

// readPolluxPublished reads mean completions by policy, load and workload.
func readPolluxPublished(name string, r io.Reader) (map[string]float64, error) {
	unzipped, err := gzip.NewReader(r)
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

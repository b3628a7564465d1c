package reproduce

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/sim"
)

// made is a run of one job with the figures that reproduce looks at.
func made(policy string, nodes int, completion, queueing float64) *batch.Run {
	r := &batch.Run{Policy: policy, Trace: "t", Nodes: nodes, Summary: sim.Summary{MeanCompletionS: completion, MeanQueueingS: queueing}}
	r.Result.Jobs = []sim.Outcome{{Phase: cluster.Succeeded, End: time.Duration(completion * float64(time.Second))}}
	return r
}

func TestTroublesStandBesideWhatTheyCost(t *testing.T) {
	v := huVariants()
	plain, noise := v[0], v[2]
	without := huMore(runsWith(120), plain)
	with := huMore(runsWith(115), noise)
	rows := huFewer(without, with, noise)
	if len(rows) != 1 || math.Abs(rows[0].Ours-5) > 1e-9 || rows[0].Published != nil || rows[0].Figure != "13" || rows[0].Note != "published: 0.6 to 2.4" {
		t.Errorf("%+v", rows)
	}
	if with[0].Published != nil || without[0].Published == nil || *without[0].Published != 17.4 {
		t.Errorf("published stand where nothing was: %+v, or not where it was: %+v", with, without)
	}
	for _, v := range v {
		if v.less != "" && !slices.ContainsFunc(huVariants(), func(o huVariant) bool { return o.figure == v.less }) {
			t.Errorf("figure %s is compared with %s, which there is not", v.figure, v.less)
		}
	}
}

// runsWith are greedy's mean completion and that of hu, 100.
func runsWith(greedy float64) []*batch.Run {
	runs := []*batch.Run{made("greedy", 110, greedy, 0), made("hu", 110, 100, 0)}
	batch.Compare(runs)
	return runs
}

func TestHuFiguresStandNextToThePublishedOnes(t *testing.T) {
	runs := []*batch.Run{
		made("greedy", 110, 120, 10), made("hu", 110, 100, 9),
		made("greedy", 150, 110, 8), made("hu", 150, 100, 4),
	}
	batch.Compare(runs)
	found := map[string]float64{}
	for _, f := range huTimes(runs) {
		if f.Published != nil {
			found["9"] = f.Ours
			if f.Nodes != 150 || *f.Published != -32 {
				t.Errorf("%+v", f)
			}
		}
	}
	for _, f := range huMore(runs, huVariant{figure: "11", most: 17.4, note: "at most"}) {
		if f.Published != nil {
			found["11"] = f.Ours
			if f.Nodes != 110 || f.Note != "at most" {
				t.Errorf("%+v", f)
			}
		}
	}
	if found["9"] != -50 || math.Abs(found["11"]-20) > 1e-9 {
		t.Errorf("%v", found)
	}
}

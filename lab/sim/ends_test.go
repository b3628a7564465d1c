package sim

import (
	"math"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

func TestEnds(t *testing.T) {
	at := func(n, end, low, high int) Told {
		s := func(n int) time.Duration { return time.Duration(n) * time.Second }
		return Told{At: s(n), Known: true, End: s(end), Low: s(low), High: s(high)}
	}
	e := endsOf([]Outcome{
		{Phase: cluster.Succeeded, Submit: 100 * time.Second, End: 200 * time.Second, Told: []Told{
			at(120, 250, 190, 260), {At: 140 * time.Second}, at(160, 190, 180, 195), // covered at 125 and 135; none at 145 and 155; not covered from 165 on
		}},
		{Phase: cluster.Failed, Submit: 0, End: 100 * time.Second, Told: []Told{at(10, 100, 99, 101)}},
	})
	if e.EndsTold == nil || math.Abs(*e.EndsTold-0.6) > 1e-9 || math.Abs(*e.EndsCovered-1.0/3) > 1e-9 || math.Abs(*e.EndErrorAt25-50.0/75) > 1e-9 {
		t.Errorf("told %v, covered %v, error %v", e.EndsTold, e.EndsCovered, e.EndErrorAt25)
	}
	if none := endsOf([]Outcome{{Phase: cluster.Succeeded, End: time.Hour}}); none != (Ends{}) {
		t.Errorf("nothing was predicted: %+v", none)
	}
}

// Predicted ends of jobs of which only the steps are known come to be right nine times in ten.
func TestPredictedEndsCoverTheTruth(t *testing.T) {
	var jobs []Job
	for i := range 100 {
		j := elastic("a", time.Duration(i)*10*time.Minute, time.Duration(20+i%7*40)*time.Minute, 8)
		j.Speed, j.Command = Speed{1, 1.8, 3, 4 + float64(i%3)}, []string{"train", string(rune('a' + i%6))}
		jobs = append(jobs, j)
	}
	r, _ := run(t, Config{Jobs: jobs, Nodes: 4, DevicesPerNode: 4, Policy: byName(t, "flowtime"), Interval: 60 * s, RescaleCost: 20 * s, Know: KnowSteps})
	e := r.Summary().Ends
	if e.EndsTold == nil || *e.EndsTold < 0.5 || *e.EndsCovered < 0.85 || *e.EndErrorAt25 > 0.15 {
		t.Fatalf("told %v, covered %v, error %v", *e.EndsTold, *e.EndsCovered, *e.EndErrorAt25)
	}
	t.Logf("told %.2f, covered %.2f, error %.2f; %.2f rescales a job", *e.EndsTold, *e.EndsCovered, *e.EndErrorAt25, r.Summary().RescalesPerJob)
}

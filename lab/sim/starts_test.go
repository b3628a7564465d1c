package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

func TestStarts(t *testing.T) {
	told := func(start, low, high, began int) Outcome {
		s := func(n int) time.Duration { return time.Duration(n) * time.Second }
		return Outcome{Phase: cluster.Succeeded, Foretold: &Foretold{At: 100 * time.Second, Start: s(start), Low: s(low), High: s(high), Until: s(1000), Began: s(began), Took: 2 * time.Millisecond}}
	}
	e := startsOf([]Outcome{
		{}, // it did not have to wait
		told(200, 150, 300, 180), told(200, 150, 300, 140), told(200, 150, 300, 310),
		told(0, 500, 0, 1100), // later than was looked: right, and off by a tenth
		told(200, 150, 300, 0),
		told(200, 200, 202, 201), // known almost to the second
	})
	if e.StartsTold != 5 || e.StartsCovered == nil || *e.StartsCovered != 0.6 || *e.StartError < 0.24 || *e.StartError > 0.26 || e.StartsUncertain != 4 || *e.StartsUncertainCovered != 0.5 || e.LookAheadMS != 2 {
		t.Errorf("%+v, covered %v, error %v", e, *e.StartsCovered, *e.StartError)
	}
	if none := startsOf([]Outcome{{}}); none != (Starts{}) {
		t.Errorf("nothing was predicted: %+v", none)
	}
}

// bursts are far more jobs than fit at once, most of them short, in bursts.
func bursts() (jobs []Job) {
	for i := range 100 {
		at := time.Duration(i/10)*4*time.Hour + time.Duration(i%10)*3*time.Minute
		work := time.Duration(10+i*37%90) * time.Minute
		if i%10 == 3 {
			work *= 8
		}
		j := elastic(fmt.Sprint("c", i), at, work, 4)
		j.Command = []string{"train", fmt.Sprint(i % 7)}
		jobs = append(jobs, j)
	}
	return jobs
}

// The predicted starts of jobs that wait come true: within the interval nine times in ten,
// and in the median by a quarter of the wait, whether all is known of the jobs or only their steps.
func TestPredictedStartsComeTrue(t *testing.T) {
	t.Parallel()
	knows := []Know{KnowSteps, KnowAll}
	if testing.Short() {
		knows = knows[:1]
	}
	for _, know := range knows {
		r, _ := run(t, Config{Jobs: bursts(), Nodes: 1, DevicesPerNode: 4, Policy: byName(t, "flowtime"), Interval: 60 * s, RescaleCost: 20 * s, Know: know, Foretell: true})
		e := r.Summary().Starts
		if e.StartsTold < 30 || e.StartsCovered == nil {
			t.Fatalf("%s: %+v", know, e)
		}
		if *e.StartsCovered < 0.8 || *e.StartError > 0.25 {
			t.Errorf("%s: %d told, %.2f covered, error %.2f", know, e.StartsTold, *e.StartsCovered, *e.StartError)
		}
	}
}

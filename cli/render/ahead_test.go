package render_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
)

// What is known of a start is said, and no more.
func TestPredictedStarts(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) *time.Time {
		x := noon.Add(time.Duration(minutes) * time.Minute)
		return &x
	}
	for _, c := range []struct {
		start       api.PredictedStart
		table, page string
	}{
		{api.PredictedStart{At: at(10), Low: at(5), High: at(20), Workers: 2}, "10m00s (5m00s-20m00s)", "12:10:00, in 10m00s, with 2 workers; nine times in ten between 12:05:00 and 12:20:00"},
		{api.PredictedStart{At: at(10), Low: at(5), Until: at(90), Workers: 1}, "10m00s (from 5m00s)", "12:10:00, in 10m00s, with 1 worker; hardly before 12:05:00, and maybe later than 13:30:00"},
		{api.PredictedStart{Low: at(30), Until: at(60)}, "> 1h00m", "later than 13:00:00, in 1h00m: that is how far was looked; hardly before 12:30:00"},
		{api.PredictedStart{Never: true, Why: "needs at least 8 devices"}, "never", "not on the cluster as it is: needs at least 8 devices"},
	} {
		j := api.JobStatus{ID: "j-aaaaaa", Phase: cluster.Queued, Start: &c.start}
		v := render.View{Now: noon, Zone: time.UTC}
		var table, page, dry strings.Builder
		if err := render.Jobs(&table, []api.JobStatus{j}, v); err != nil {
			t.Fatal(err)
		}
		if err := render.Job(&page, j, v); err != nil {
			t.Fatal(err)
		}
		if err := render.DryRun(&dry, api.DryRunReply{Name: "j", Policy: "fifo", Leader: "c1", Start: &c.start}, v); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(table.String(), c.table) || !strings.Contains(page.String(), c.page) || !strings.Contains(dry.String(), c.page) {
			t.Errorf("%s\n%s\n%s\nwant %q, %q", &table, &page, &dry, c.table, c.page)
		}
	}
}

func TestADryRunSaysWhatWouldBecomeOfAJob(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	start, end, low, high, due := noon.Add(time.Minute), noon.Add(time.Hour), noon.Add(50*time.Minute), noon.Add(2*time.Hour), noon.Add(3*time.Hour)
	var out strings.Builder
	err := render.DryRun(&out, api.DryRunReply{
		Name: "train", Policy: "flowtime", Leader: "c1", Refused: true, Start: &api.PredictedStart{At: &start, Low: &start, High: &start, Workers: 2},
		Shrinks: []api.Shrink{{Job: "a-aaaaaa", From: 4, To: 2}, {Job: "b-aaaaaa", From: 1}},
		End:     &end, EndLow: &low, EndHigh: &high, WorkUnknown: true, Deadline: &due, DeadlineHolds: api.HoldsLikely, Answer: &api.DeadlineAnswer{Why: "flowtime promises none"},
	}, render.View{Now: noon, Zone: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"train  dry run: nothing is submitted", "refused     for its deadline", "makes room  a-aaaaaa, from 4 workers to 2 workers", "makes room  b-aaaaaa, from 1 worker to waiting",
		"ends        13:00:00, in 1h00m; nine times in ten between 12:50:00 and 14:00:00; hardly more than a guess",
		"deadline    15:00:00, not promised, but it would end before it: flowtime promises none", "decides     policy flowtime of c1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %q", &out, want)
		}
	}
}

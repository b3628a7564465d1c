package agent

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

func TestFenced(t *testing.T) {
	confirmed := Run{Shim: Live, Pushed: &run.Wish{Deadline: 70}, Report: &run.Report{Deadline: 70}}
	for name, c := range map[string]struct {
		run  Run
		want bool
	}{
		"confirmed":                          {confirmed, true},
		"told and not heard":                 {Run{Shim: Live, Pushed: &run.Wish{Deadline: 70}, Report: &run.Report{}}, false},
		"an earlier one is in force":         {Run{Shim: Live, Pushed: &run.Wish{Deadline: 70}, Report: &run.Report{Deadline: 50}}, false},
		"none is still in force":             {Run{Shim: Live, Pushed: &run.Wish{Deadline: 70}, Report: &run.Report{Deadline: fence.Never}}, false},
		"told that there is none":            {Run{Shim: Live, Pushed: &run.Wish{Deadline: fence.Never}, Report: &run.Report{Deadline: fence.Never}}, false},
		"told nothing of one":                {Run{Shim: Live, Pushed: &run.Wish{}, Report: &run.Report{}}, false},
		"connected a moment ago":             {Run{Shim: Live, Report: &run.Report{Deadline: 70}}, false},
		"it has not reported":                {Run{Shim: Live, Pushed: &run.Wish{Deadline: 70}}, false},
		"being started":                      {Run{Shim: Starting}, false},
		"its shim has died":                  {Run{Shim: Dead, Report: &run.Report{Deadline: 70}}, false},
		"and was swept":                      {Run{Shim: Dead, Swept: true, Report: &run.Report{}}, true},
		"stopped, its shim has not gone yet": {Run{Shim: Live, Report: &run.Report{Stopped: &record.Stopped{}}}, true},
		"there is none":                      {Run{Shim: Absent, Swept: true}, true},
		"what is left runs no more":          {Run{Shim: Live, Report: &run.Report{}, KillPending: []int{7}}, true},
		"there seems to be none":             {Run{Shim: Absent}, false},
	} {
		if got := Fenced([]Run{confirmed, c.run, confirmed}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if !Fenced(nil) {
		t.Error("a node without runs cannot give its word")
	}
}

func TestOverdue(t *testing.T) {
	const deadline = int64(100 * time.Second)
	times := Times{Grace: time.Second, Patience: 11 * time.Second}
	live := Run{Shim: Live, Report: &run.Report{}}
	kills := Run{Shim: Live, Report: &run.Report{Failed: &record.Failed{Kind: record.NodeFenced}}}
	for name, c := range map[string]struct {
		run  Run
		late time.Duration
		want Kill
	}{
		"the shim has its second":                       {live, time.Second - 1, KillNothing},
		"it has not done it":                            {live, time.Second, KillAll},
		"it has never reported":                         {Run{Shim: Live}, time.Second, KillAll},
		"it is being started":                           {Run{Shim: Starting}, time.Second, KillAll},
		"it has died, and was not swept":                {Run{Shim: Dead, Report: kills.Report}, time.Second, KillAll},
		"it has died, and was swept":                    {Run{Shim: Dead, Swept: true}, time.Hour, KillNothing},
		"nothing is known of it":                        {Run{Shim: Absent}, time.Hour, KillNothing},
		"it has stopped":                                {Run{Shim: Live, Report: &run.Report{Stopped: &record.Stopped{}}}, time.Hour, KillNothing},
		"it is at it":                                   {kills, time.Second, KillWorkers},
		"it is at it for long":                          {kills, 12*time.Second - 1, KillWorkers},
		"it was at it, and hangs":                       {kills, 12 * time.Second, KillAll},
		"a worker's failure does not say that it kills": {Run{Shim: Live, Report: &run.Report{Failed: &record.Failed{Kind: record.WorkerFailed}}}, time.Second, KillAll},
		"it has said what does not die": {Run{Shim: Live, Report: &run.Report{
			Failed: kills.Report.Failed, Unkillable: []int{7},
		}}, time.Hour, KillNothing},
	} {
		if got := Overdue(deadline+int64(c.late), deadline, c.run, times); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for _, none := range []int64{0, fence.Never} {
			if got := Overdue(deadline+int64(c.late), none, c.run, times); got != KillNothing {
				t.Errorf("%s, with no deadline (%d): %v", name, none, got)
			}
		}
	}
}

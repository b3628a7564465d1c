package agent

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/fence"
	"github.com/bellows-ml/bellows/record"
)

func TestFenced(t *testing.T) {
	confirmed := Run{Shim: Live, Pushed: &Wish{Deadline: 70}, Report: &Report{Deadline: 70}}
	for name, c := range map[string]struct {
		run  Run
		want bool
	}{
		"confirmed":                          {confirmed, true},
		"told and not heard":                 {Run{Shim: Live, Pushed: &Wish{Deadline: 70}, Report: &Report{}}, false},
		"an earlier one is in force":         {Run{Shim: Live, Pushed: &Wish{Deadline: 70}, Report: &Report{Deadline: 50}}, false},
		"none is still in force":             {Run{Shim: Live, Pushed: &Wish{Deadline: 70}, Report: &Report{Deadline: fence.Never}}, false},
		"told that there is none":            {Run{Shim: Live, Pushed: &Wish{Deadline: fence.Never}, Report: &Report{Deadline: fence.Never}}, false},
		"told nothing of one":                {Run{Shim: Live, Pushed: &Wish{}, Report: &Report{}}, false},
		"connected a moment ago":             {Run{Shim: Live, Report: &Report{Deadline: 70}}, false},
		"it has not reported":                {Run{Shim: Live, Pushed: &Wish{Deadline: 70}}, false},
		"being started":                      {Run{Shim: Starting}, false},
		"its shim has died":                  {Run{Shim: Dead, Report: &Report{Deadline: 70}}, false},
		"and was swept":                      {Run{Shim: Dead, Swept: true, Report: &Report{}}, true},
		"stopped, its shim has not gone yet": {Run{Shim: Live, Report: &Report{Stopped: &record.Stopped{}}}, true},
		"there is none":                      {Run{Shim: Absent, Swept: true}, true},
		"what is left runs no more":          {Run{Shim: Live, Report: &Report{}, KillPending: []int{7}}, true},
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
	live := Run{Shim: Live, Report: &Report{}}
	kills := Run{Shim: Live, Report: &Report{Failed: &record.Failed{Kind: record.NodeFenced}}}
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
		"it has stopped":                                {Run{Shim: Live, Report: &Report{Stopped: &record.Stopped{}}}, time.Hour, KillNothing},
		"it is at it":                                   {kills, time.Second, KillWorkers},
		"it is at it for long":                          {kills, 12*time.Second - 1, KillWorkers},
		"it was at it, and hangs":                       {kills, 12 * time.Second, KillAll},
		"a worker's failure does not say that it kills": {Run{Shim: Live, Report: &Report{Failed: &record.Failed{Kind: record.WorkerFailed}}}, time.Second, KillAll},
		"it has said what does not die": {Run{Shim: Live, Report: &Report{
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

// A node whose lease was lost is back with another one at once. Its old workers
// have the time of the old lease, and no more.
func TestOnlyTheLeaseOfItsOwnLifeProlongsARun(t *testing.T) {
	for _, c := range []struct {
		deadline, life int64
		want           bool
	}{{70, 10, true}, {70, 20, false}, {0, 10, false}, {fence.Never, 10, true}, {fence.Never, 20, true}} {
		if got := (Wish{Deadline: c.deadline}).Prolongs(10, c.life); got != c.want {
			t.Errorf("deadline %d of life %d: %v", c.deadline, c.life, got)
		}
	}
}

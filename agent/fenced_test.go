package agent

import (
	"testing"

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

package render_test

import (
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/render"
)

func TestAnswersToDeadlines(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	due, ends, later := noon.Add(time.Hour), noon.Add(50*time.Minute), noon.Add(2*time.Hour)
	offer := &api.DeadlineOffer{Deadline: &later, MaxWorkers: 8, Steps: 100}
	for want, j := range map[string]api.JobStatus{
		"accepted": {},
		"deadline 13:00:00 is promised, planned to end by 12:50:00; it rests on --eta": {
			Deadline: &due, Phase: cluster.Queued, Answer: &api.DeadlineAnswer{Promised: true, Ends: &ends, Why: "it rests on --eta"},
		},
		"refused: deadline 13:00:00 is not promised: too late; it could be promised with --deadline 2026-01-01T14:00:00Z (14:00:00), or with --max 8, or with --steps 100": {
			Deadline: &due, Phase: cluster.Refused, Answer: &api.DeadlineAnswer{Why: "too late", Offer: offer},
		},
		"accepted; deadline 13:00:00 is not promised: no speed": {
			Deadline: &due, Phase: cluster.Queued, Answer: &api.DeadlineAnswer{Why: "no speed"},
		},
		"accepted; its deadline 13:00:00 is not promised: the coordinator, of an earlier version, answers none": {Deadline: &due, Phase: cluster.Running},
		"refused: name in use": {Deadline: &due, Phase: cluster.Failed, Reason: "name in use"},
	} {
		if got := render.Answered(j, render.View{Now: noon, Zone: time.UTC}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A job that is followed says once when its promise is lost, and once when it is safe again.
func TestALostDeadlineIsToldOnce(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := render.Story{Zone: time.UTC}
	j := api.JobStatus{Phase: cluster.Running, Answer: &api.DeadlineAnswer{Promised: true}}
	told := func(want int) {
		t.Helper()
		if lines := s.Tell(j, noon); len(lines) != want {
			t.Errorf("%q, want %d lines", lines, want)
		}
	}
	told(0)
	j.Answer = &api.DeadlineAnswer{Promised: true, Lost: "a node is gone"}
	told(1)
	told(0)
	j.Answer = &api.DeadlineAnswer{Promised: true}
	told(1)
}

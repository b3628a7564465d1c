package render_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
)

func TestAnswersToDeadlines(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	due, ends, later := noon.Add(time.Hour), noon.Add(50*time.Minute), noon.Add(2*time.Hour)
	dueAt := cluster.Spec{Deadline: &due}
	offer := &api.DeadlineOffer{Deadline: &later, MaxWorkers: 8, Steps: 100}
	for want, j := range map[string]api.JobStatus{
		"accepted": {},
		"deadline 13:00:00 is promised, planned to end by 12:50:00; it rests on --eta": {
			Spec: dueAt, Phase: cluster.Queued, Answer: &api.DeadlineAnswer{Promised: true, Ends: &ends, Why: "it rests on --eta"},
		},
		"refused: deadline 13:00:00 is not promised: too late; it could be promised with --deadline 2026-01-01T14:00:00Z (14:00:00), or with --max 8, or with --steps 100": {
			Spec: dueAt, Phase: cluster.Refused, Answer: &api.DeadlineAnswer{Why: "too late", Offer: offer},
		},
		"accepted; deadline 13:00:00 is not promised: no speed": {
			Spec: dueAt, Phase: cluster.Queued, Answer: &api.DeadlineAnswer{Why: "no speed"},
		},
		"accepted; its deadline 13:00:00 is not promised: the coordinator, of an earlier version, answers none": {Spec: dueAt, Phase: cluster.Running},
		"deadline 13:00:00 is not promised, but 14:00:00 is, within its grace, planned to end by 12:50:00: too late; it rests on --eta; it could be promised with --max 8": {
			Spec: dueAt, GraceS: 7200, Phase: cluster.Queued,
			Answer: &api.DeadlineAnswer{Promised: true, By: &later, Ends: &ends, Why: "too late; it rests on --eta", Offer: &api.DeadlineOffer{MaxWorkers: 8}},
		},
		"refused: name in use": {Spec: dueAt, Phase: cluster.Failed, Reason: "name in use"},
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

// A job that is followed says when its promise moves into its grace, and not what its answer has said.
func TestALaterPromiseIsToldOnce(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(h int) *time.Time { return new(noon.Add(time.Duration(h) * time.Hour)) }
	s := render.Story{Zone: time.UTC}
	for _, c := range []struct {
		by   *time.Time
		told string
	}{{at(1), ""}, {at(1), ""}, {at(2), "promised by 14:00:00 now, within its grace"}, {at(2), ""}} {
		got := s.Tell(api.JobStatus{Phase: cluster.Running, Answer: &api.DeadlineAnswer{Promised: true, By: c.by}}, noon)
		if text := strings.Join(got, ""); strings.Contains(text, "within its grace") != (c.told != "") || !strings.Contains(text, c.told) {
			t.Errorf("by %v: %q, want %q", c.by, text, c.told)
		}
	}
}

// What became of a deadline with a grace, in a word: an end within the grace is late, not missed.
func TestStatesOfASoftDeadline(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	due, by := noon, noon.Add(30*time.Minute)
	for _, c := range []struct {
		status api.JobStatus
		want   string
	}{
		{api.JobStatus{Phase: cluster.Running, Answer: &api.DeadlineAnswer{Promised: true, By: &by}}, "promised late"},
		{api.JobStatus{Phase: cluster.Running, Answer: &api.DeadlineAnswer{Promised: true}}, "promised"},
		{api.JobStatus{Phase: cluster.Running, Answer: &api.DeadlineAnswer{Promised: true, By: &by, Lost: "a node"}}, "lost"},
		{api.JobStatus{Phase: cluster.Queued}, "not answered"},
		{api.JobStatus{Phase: cluster.Queued, Answer: &api.DeadlineAnswer{}}, "not promised"},
		{api.JobStatus{Phase: cluster.Succeeded, Ended: true, Since: noon}, "kept"},
		{api.JobStatus{Phase: cluster.Succeeded, Ended: true, Since: noon.Add(time.Hour)}, "late"},
		{api.JobStatus{Phase: cluster.Succeeded, Ended: true, Since: noon.Add(time.Hour + time.Second)}, "missed"},
		{api.JobStatus{Phase: cluster.Stopped, Ended: true, Since: noon.Add(-time.Hour)}, "missed"},
	} {
		c.status.Deadline, c.status.GraceS = &due, 3600
		var page strings.Builder
		if err := render.Job(&page, c.status, render.View{Now: noon, Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		if want := "12:00:00 with 1h00m of grace, " + c.want; !strings.Contains(page.String(), want+"\n") && !strings.Contains(page.String(), want+":") && !strings.Contains(page.String(), want+", by 12:30:00") {
			t.Errorf("want %q\n%s", want, page.String())
		}
	}
}

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

func (u *people) scale(id cluster.JobID, least, most int) {
	u.t.Helper()
	if out, errs, code := u.patiently("scale", string(id), "--min", fmt.Sprint(least), "--max", fmt.Sprint(most)); code != 0 {
		u.t.Fatalf("scale %s exited %d: %s%s", id, code, out, errs)
	}
}

// Of two jobs that share three devices, the one that is done sooner has two of them, as
// far as the policy knows: until it is measured that two workers are no faster than one.
// A cluster whose scripts report nothing cannot know, and stays with the wrong split.
func TestDevicesGoToTheJobThatGains(t *testing.T) {
	t.Parallel()
	const settled = 5 * time.Second // a few decisions
	policies := []string{policy.Default, "hu"}
	if testing.Short() {
		policies = policies[:1]
	}
	for _, name := range policies {
		for _, reports := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s reports %t", name, reports), func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, config{nodes: 1, devices: 3, policy: name, interval: time.Second})
				// Steps are long, so that what a busy machine adds to each of them is little.
				flat := f.paced(pacing{"flat", 500 * time.Millisecond, "{1: 1, 2: 1}", 14400, reports})
				steep := f.paced(pacing{"steep", 500 * time.Millisecond, "{1: 1, 2: 1.9}", 43200, reports})
				flat["max"], flat["eta"], steep["eta"] = 1, "2h", "6h"
				id, other := f.submit(flat), f.submit(steep)
				g := f.awaitRunning(id, 1, 0)
				if reports {
					f.awaitReports(id, g)
				}
				f.scale(id, 2, 2)
				g = f.awaitRunning(id, 2, g)
				others := f.awaitRunning(other, 1, 0)
				if reports {
					f.awaitReports(id, g)
					f.scale(id, 1, 1)
					f.awaitRunning(id, 1, g)
					f.awaitMeasured(id, 1, 2)
				}
				// A device that is idle may go to the other job before this, and a policy that
				// knows no better leaves it there: where none knows, none is idle.
				f.scale(id, 1, 2)
				if reports {
					f.awaitRunning(other, 2, others)
				}
				time.Sleep(settled)
				has, rest := f.show(id), f.show(other)
				if wrong := has.Workers == 2 && rest.Workers == 1; wrong == reports {
					t.Errorf("%d workers have the job that does not gain, %d the other: %s", has.Workers, rest.Workers, f.decided())
				}
				known := func(s api.JobStatus) bool {
					return len(s.Speeds) > 0 && s.Prediction != nil && s.Prediction.EndLow != nil
				}
				switch {
				case reports:
					f.awaitShown(id, "its speeds and when it ends", known)
				case known(has):
					t.Errorf("prediction %+v, speeds %+v", has.Prediction, has.Speeds)
				}
			})
		}
	}
}

// awaitReports waits until a generation on n1 has reported for long enough to be measured:
// reports come every ten seconds, and the first twelve do not count.
func (r *records) awaitReports(id cluster.JobID, g cluster.Generation) {
	r.t.Helper()
	r.await(fmt.Sprintf("reports of generation %d of %s", g, id), func(m *record.Mirror) bool {
		p := m.Node("n1").Progress.Value.Jobs[id]
		return p.Generation == g && !p.FirstAt.IsZero() && p.At.Sub(p.FirstAt) > 16*time.Second
	})
}

// awaitMeasured waits until the leader has recorded how fast a job is with these numbers of
// workers, which it does at the end of a generation.
func (r *records) awaitMeasured(id cluster.JobID, workers ...int) {
	r.t.Helper()
	r.await(fmt.Sprintf("speeds of %s with %v workers", id, workers), func(m *record.Mirror) bool {
		for _, n := range workers {
			if !slices.ContainsFunc(m.Job(id).Speed.Value.Points, func(p record.SpeedPoint) bool { return p.Workers == n }) {
				return false
			}
		}
		return true
	})
}

// decided is the last decision, for the messages of failed tests.
func (r *records) decided() string { return fmt.Sprintf("%+v", r.mirror().Decision.Value) }

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// A job that waits for the only device is told when it will start, and starts then: most of
// the intervals that it was shown hold the moment. On a machine whose speed varies, the work of the
// job before it does not take what was foreseen; a quarter of the wait is allowed for that.
func TestAPredictedStartComesTrue(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fifo", "flowtime"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aPredictedStartComesTrue(t, name)
		})
	}
}

func aPredictedStartComesTrue(t *testing.T, name string) {
	t.Helper()
	f := newFleet(t, config{nodes: 1, devices: 1, policy: name, interval: 2 * time.Second})
	first := f.submit(f.sdkJob("first", 1, 1, 400, 0.1))
	f.awaitPhase(first, cluster.Running)
	f.awaitStep("first", 20, 1)
	second := f.submit(f.sdkJob("second", 1, 1, 4000, 0.1)) // the longer one, for which no policy halts the other

	type told struct{ at, low, high time.Time }
	var all []told
	began := f.awaitShown(second, "its start", func(s api.JobStatus) bool {
		if p := s.Start; p != nil && p.At != nil && p.Low != nil && p.High != nil {
			all = append(all, told{time.Now(), *p.Low, *p.High})
		}
		return s.Generation > 0
	})
	start := f.mirror().Job(second).Generation(cluster.Generation(began.Generation)).Plan.Value.At
	held := 0
	for _, p := range all {
		slack := start.Sub(p.at)/4 + 2*time.Second
		if !start.Before(p.low.Add(-slack)) && !start.After(p.high.Add(slack)) {
			held++
		}
	}
	if len(all) == 0 || 2*held <= len(all) {
		t.Errorf("it started at %v, which %d of %d predictions held: %+v", start, held, len(all), all)
	}
}

// A dry run says what would become of a job and leaves nothing of it behind.
func TestADryRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2, policy: "flowtime", interval: 2 * time.Second})
	ask := func(j job) (r api.DryRunReply, status int) {
		t.Helper()
		text, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(f.dir, "dry.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, status := f.patiently("submit", "--dry-run", "-f", file, "-o", "json")
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("exit %d: %s%s", status, out, errs)
		}
		return r, status
	}
	due := f.sdkJob("due", 1, 2, 100, 0.1)
	due["deadline"] = "+12h"
	if r, status := ask(due); status != api.RefusedStatus || !r.Refused || r.Answer == nil || r.Answer.Promised {
		t.Errorf("a deadline that is not promised: exit %d, %+v", status, r)
	}
	if r, status := ask(f.sdkJob("large", 8, 8, 100, 0.1)); status != api.NeverStartsStatus || r.Start == nil || !r.Start.Never || len(r.Warnings) == 0 {
		t.Errorf("too large: exit %d, %+v", status, r)
	}
	next := f.sdkJob("next", 1, 2, 100, 0.1)
	r, status := ask(next)
	for end := time.Now().Add(patience); status == 0 && r.Start != nil && r.Start.At == nil && time.Now().Before(end); { // a look-ahead takes a second at most, however busy the machine is
		r, status = ask(next)
	}
	if status != 0 || r.Start == nil || r.Start.At == nil || time.Until(*r.Start.At) > time.Minute || r.Start.Workers == 0 || r.Policy != "flowtime" {
		t.Errorf("exit %d, %+v", status, r)
	}
	if jobs := f.mirror().Jobs; len(jobs) != 0 {
		t.Errorf("left behind: %d jobs", len(jobs))
	}
	f.awaitPhase(f.submit(next), cluster.Succeeded)
}

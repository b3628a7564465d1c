package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// A job that has been running for as long as it may saves, ends with a status of
// its own, and can be gone on with; the leader in between is another one.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{devices: 1, coordinators: 2})
	const ample, limit = 30 * time.Minute, 10 * time.Second // time to look at it, and the one that it meets
	run := startSession(t, f.command(1, "run", "--name", "limited", "--max", "1", "--time-limit", ample.String(),
		"--checkpoint-dir", f.dir+"/ckpt", "--workdir", f.dir, "--",
		python, example(t, "sdk_minimal.py"), "--steps", "100000", "--worker-seconds", "0.05", "--trace", f.dir+"/limited.trace"))
	f.awaitStep("limited", 2, 1)
	var id cluster.JobID
	for _, j := range f.mirror().JobIDs() {
		id = j
	}
	// Steps are taken before the leader knows that it runs.
	shown := f.awaitShown(id, "by when it ends", func(s api.JobStatus) bool { return s.LimitAt != nil })
	if shown.TimeLimitS != ample.Seconds() || !shown.LimitAt.Equal(shown.Since.Add(ample)) {
		t.Errorf("show says a limit of %v s at %v, running since %v", shown.TimeLimitS, shown.LimitAt, shown.Since)
	}
	if out, _, _ := f.bellows("show", string(id)); !strings.Contains(out, "time limit  30m") {
		t.Errorf("the page does not say how much is left:\n%s", out)
	}
	f.kill("coordinator-" + strings.TrimPrefix(f.leader(), "c")) // another one counts on
	f.mustBellows("scale", string(id), "--time-limit", limit.String())

	if code := run.wait(); code != 124 {
		t.Errorf("bellows run exits %d, want 124: %s", code, run.errs.String())
	}
	for _, want := range []string{
		"time limit of 10s reached", "stopped by its time limit after", "warning: it had not finished; bellows resume " + string(id) + " goes on from step",
	} {
		if !strings.Contains(run.errs.String(), want) {
			t.Errorf("what it tells lacks %q: %s", want, run.errs.String())
		}
	}
	end := f.show(id)
	last := f.lastStep("limited")
	if end.Phase != cluster.Stopped || !end.TimedOut || end.Reason != "time limit of 10s reached" || end.RanS < limit.Seconds() {
		t.Errorf("it is %s (timed out: %v), %q, after %v s", end.Phase, end.TimedOut, end.Reason, end.RanS)
	}
	if end.Progress.Step != int64(last+1) {
		t.Errorf("step %d was begun, and it is saved at %d", last, end.Progress.Step)
	}
	f.nothingLeft(id)

	// It goes on where it was, with a whole limit, which can be changed while it runs.
	f.mustBellows("resume", string(id), "--time-limit", "30m")
	f.awaitShown(id, "another limit", func(s api.JobStatus) bool { return s.TimeLimitS == 1800 && s.RanS == 0 })
	f.awaitStep("limited", last+3, 1)
	if got := takes(f.trace("limited"))[last]; got != 1 {
		t.Errorf("step %d was taken %d times", last, got)
	}
	f.says(0, []string{"1h0m0s in all"}, "scale", string(id), "--time-limit", "1h")
	f.awaitShown(id, "another limit", func(s api.JobStatus) bool { return s.TimeLimitS == 3600 })
	f.mustBellows("scale", string(id), "--time-limit", "1ms")
	f.awaitPhase(id, cluster.Stopped)
	if s := f.show(id); !s.TimedOut || s.ExitCode == nil || *s.ExitCode != 124 {
		t.Errorf("after its limit was cut: %s", fmt.Sprintf("%+v", s))
	}
}

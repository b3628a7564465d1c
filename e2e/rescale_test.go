package e2e

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// The same job, once on its own and once rescaled 8 → 4 → 8 → 2 by others that
// come and go, sees the same samples in the same global batches, each once.
func TestRescaledJobSeesTheSameSamples(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 4, policy: "share"})
	id := f.submit(f.sdkJob("a", 1, 8, 1<<30, 0.4))
	f.awaitStep("a", 5, 8)

	half := f.submit(f.sdkJob("half", 4, 4, 100000, 0.1))
	f.awaitStep("a", 0, 4)
	f.stop(half)
	grown := f.awaitStep("a", f.lastStep("a"), 8)

	f.submit(f.sdkJob("first", 4, 4, 100000, 0.1))
	f.submit(f.sdkJob("second", 2, 2, 100000, 0.1))
	f.awaitStep("a", f.awaitStep("a", grown, 2)+10, 2)
	f.awaitRunning(id, 2, 0) // steps are taken before the leader knows that it runs
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)

	lines := f.trace("a")
	steps := f.lastStep("a") + 1
	for step, n := range takes(lines) {
		if n != 1 {
			t.Errorf("step %d was taken %d times: a planned rescale loses no step", step, n)
		}
	}
	alone := newFleet(t, config{nodes: 1, devices: 1})
	alone.awaitPhase(alone.submit(alone.sdkJob("a", 1, 1, steps, 0)), cluster.Succeeded)
	got, want := batches(t, lines), batches(t, alone.trace("a"))
	if len(got) != steps || !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%d batches of the rescaled run differ from the %d of the run that never was", len(got), len(want))
	}
	checkRescales(t, f, id)
}

// checkRescales asks `show` what the person would: why, from, to, and where the time went.
func checkRescales(t *testing.T, f *fleet, id cluster.JobID) {
	t.Helper()
	var sizes []int
	for _, r := range f.show(id).Rescales {
		sizes = append(sizes, r.To)
		t.Logf("%d → %d (%s): signal %.3f, save %.3f, commit %.3f, start %.3f: own %.3f s, %d steps lost",
			r.From, r.To, r.Why, r.SignalS, r.SaveS, r.CommitS, r.StartS, r.OwnS, r.LostSteps)
		if r.LostSteps != 0 || r.Why == "" {
			t.Errorf("rescale to %d lost %d steps, why %q", r.To, r.LostSteps, r.Why)
		}
	}
	for i, want := range []int{8, 4, 8} {
		if i >= len(sizes) || sizes[i] != want {
			t.Fatalf("sizes %v, want 8 4 8 … 2 …", sizes)
		}
	}
	if !slices.Contains(sizes, 2) {
		t.Errorf("sizes %v never reach 2", sizes)
	}
}

func (u *people) stop(id cluster.JobID) {
	u.t.Helper()
	if out, errs, code := u.patiently("stop", string(id)); code != 0 {
		u.t.Fatalf("stop %s exited %d: %s%s", id, code, out, errs)
	}
}

// A second job waits until the first has let go of the devices it must give up.
func TestMakeRoomForASecondJob(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, policy: "greedy"})
	big := f.submit(f.sdkJob("big", 1, 4, 4000, 0.1))
	f.awaitStep("big", 3, 4)
	small := f.submit(f.sdkJob("small", 1, 2, 30, 0.1))
	f.awaitPhase(small, cluster.Succeeded)
	f.awaitStep("big", f.awaitStep("big", 3, 2), 4) // and takes them back, before the leader knows that it runs
	f.awaitShown(big, "four workers that run", func(s api.JobStatus) bool { return s.Workers == 4 && s.Phase == cluster.Running })
}

// A halt that comes while the ranks still import costs nothing: not the
// checkpoint before, not a step, and not the freedom to grow again.
func TestHaltWhileImporting(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 4, policy: "share"})
	j := f.sdkJob("slow", 1, 4, 1<<30, 0.1)
	// The second generation imports for as long as it is left alone.
	j["command"] = append([]string{"/bin/sh", "-c", `while [ "$BELLOWS_GENERATION" = 2 ]; do sleep 0.1; done; exec "$@"`, "sh"}, j["command"].([]string)...)
	id := f.submit(j)
	f.awaitStep("slow", 5, 4)
	first := f.submit(f.sdkJob("first", 2, 2, 1<<30, 0.1))
	f.await("the second generation to run", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation == 2 && s.Phase == cluster.Running
	})
	second := f.submit(f.sdkJob("second", 1, 1, 1<<30, 0.1))
	m := f.await("the third", func(m *record.Mirror) bool { return m.Job(id).Rescales[3].Exists() })
	if r := m.Job(id).Rescales[3].Value; r.LostSteps != 0 || m.Job(id).State.Value.Pinned {
		t.Errorf("the halt of a generation that took no step cost something: %+v", r)
	}
	f.stop(first)
	f.stop(second)
	f.awaitStep("slow", f.lastStep("slow"), 4)
	for step, n := range takes(f.trace("slow")) {
		if n != 1 {
			t.Errorf("step %d was taken %d times", step, n)
		}
	}
}

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// The same job, once on its own and once rescaled 8 → 4 → 8 → 2 by others that
// come and go, sees the same samples in the same global batches, each once.
func TestRescaledJobSeesTheSameSamples(t *testing.T) {
	t.Parallel()
	const steps = 600
	f := newFleet(t, config{nodes: 2, devices: 4, policy: "share"})
	id := f.submit(f.sdkJob("a", 1, 8, steps, 0.4))
	f.awaitStep("a", 5, 8, 30*time.Second)

	half := f.submit(f.sdkJob("half", 4, 4, 100000, 0.1))
	f.awaitStep("a", 0, 4, 30*time.Second)
	f.stop(half)
	grown := f.awaitStep("a", f.lastStep("a"), 8, 30*time.Second)

	first := f.submit(f.sdkJob("first", 4, 4, 100000, 0.1))
	second := f.submit(f.sdkJob("second", 2, 2, 100000, 0.1))
	f.awaitStep("a", grown, 2, 30*time.Second)
	f.stop(first)
	f.stop(second)
	f.awaitPhase(id, 2*time.Minute, cluster.Succeeded)

	lines := f.trace("a")
	for step, n := range takes(lines) {
		if n != 1 {
			t.Errorf("step %d was taken %d times: a planned rescale loses no step", step, n)
		}
	}
	alone := newFleet(t, config{nodes: 1, devices: 1})
	alone.awaitPhase(alone.submit(alone.sdkJob("a", 1, 1, steps, 0)), time.Minute, cluster.Succeeded)
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

func (f *fleet) stop(id cluster.JobID) {
	f.t.Helper()
	if out, errs, code := f.bellows("stop", string(id)); code != 0 {
		f.t.Fatalf("stop %s exited %d: %s%s", id, code, out, errs)
	}
}

// A second job waits until the first has let go of the devices it must give up.
func TestMakeRoomForASecondJob(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 2, devices: 2, policy: "greedy"})
	f.submit(f.sdkJob("big", 1, 4, 4000, 0.1))
	f.awaitStep("big", 3, 4, 30*time.Second)
	small := f.submit(f.sdkJob("small", 1, 2, 30, 0.1))
	f.awaitPhase(small, time.Minute, cluster.Succeeded)
	f.awaitStep("big", f.awaitStep("big", 3, 2, 30*time.Second), 4, 30*time.Second) // and takes them back
	out, _, _ := f.bellows("ps")
	if !strings.Contains(out, "big") {
		t.Errorf("ps does not show the job:\n%s", out)
	}
}

// A halt that comes while the ranks still import costs nothing: not the
// checkpoint before, not a step, and not the freedom to grow again.
func TestHaltWhileImporting(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 4, policy: "share"})
	j := f.sdkJob("slow", 1, 4, 1<<30, 0.1)
	j["command"] = append([]string{"/bin/sh", "-c", `sleep 5; exec "$@"`, "sh"}, j["command"].([]string)...) // imports a lot
	id := f.submit(j)
	f.awaitStep("slow", 5, 4, patience)
	first := f.submit(f.sdkJob("first", 2, 2, 1<<30, 0.1))
	f.await(patience, "the second generation to run", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation == 2 && s.Phase == cluster.Running
	})
	second := f.submit(f.sdkJob("second", 1, 1, 1<<30, 0.1))
	m := f.await(patience, "the third", func(m *record.Mirror) bool { return m.Job(id).Rescales[3].Exists() })
	if r := m.Job(id).Rescales[3].Value; r.LostSteps != 0 || strings.Contains(r.Why, "saved nothing") || m.Job(id).State.Value.Pinned {
		t.Errorf("the halt of a generation that took no step cost something: %+v", r)
	}
	for _, l := range f.trace("slow") {
		if l.Generation == 2 {
			t.Fatal("the second generation took a step before it was halted: the machine is too slow for this test")
		}
	}
	f.stop(first)
	f.stop(second)
	f.awaitStep("slow", f.lastStep("slow"), 4, patience)
	for step, n := range takes(f.trace("slow")) {
		if n != 1 {
			t.Errorf("step %d was taken %d times", step, n)
		}
	}
}

package e2e

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// torchJob is examples/pytorch_ddp.py: DDP over gloo on processors.
func (f *fleet) torchJob(name string, largest, steps int) job {
	return job{
		"name": name, "min": 1, "max": largest, "batch-size": 64, "steps": steps,
		"workdir": f.dir, "checkpoint-dir": filepath.Join(f.dir, "ckpt"), "env": map[string]string{"OMP_NUM_THREADS": "1"},
		"command": []string{
			python, example(f.t, "pytorch_ddp.py"),
			"--steps", fmt.Sprint(steps), "--samples", "2048", "--log-every", "10", "--save-every", "1000000",
		},
	}
}

// losses reads the losses that rank 0 has logged, by step.
func (f *fleet) losses(name string) map[int]float64 {
	f.t.Helper()
	out, errs, code := f.bellows("logs", name, "--rank", "0")
	if code != 0 {
		f.t.Fatalf("logs exited %d: %s", code, errs)
	}
	found := map[int]float64{}
	for _, m := range regexp.MustCompile(`step (\d+): loss ([0-9.]+)`).FindAllStringSubmatch(out, -1) {
		step, _ := strconv.Atoi(m[1])
		found[step], _ = strconv.ParseFloat(m[2], 64)
	}
	return found
}

// A real DDP job, rescaled 2 → 1 → 2, ends with the loss of a run that never was.
func TestRescaledTorchJobLearnsTheSame(t *testing.T) {
	t.Parallel()
	const steps = 1000
	f := newFleet(t, config{nodes: 2, devices: 1, policy: "share"})
	id := f.submit(f.torchJob("torch", 2, steps))
	f.awaitLoss("torch", 50)
	other := f.submit(f.sdkJob("other", 1, 1, 1<<30, 0.05))
	f.awaitStep("other", 3, 1, time.Minute)
	f.awaitLoss("torch", slices.Max(slices.Collect(maps.Keys(f.losses("torch"))))+30)
	f.stop(other)
	f.awaitPhase(id, 3*time.Minute, cluster.Succeeded)
	var sizes []int
	for _, r := range f.show(id).Rescales {
		sizes = append(sizes, r.To)
		if r.LostSteps != 0 {
			t.Errorf("the rescale to %d lost %d steps", r.To, r.LostSteps)
		}
	}
	if !slices.Equal(sizes, []int{2, 1, 2}) {
		t.Errorf("sizes %v, want 2 1 2", sizes)
	}

	f.awaitPhase(f.submit(f.torchJob("alone", 1, steps)), 3*time.Minute, cluster.Succeeded)
	got, want := f.losses("torch")[steps], f.losses("alone")[steps]
	t.Logf("final loss %g after rescales, %g without", got, want)
	if want == 0 || math.Abs(got-want) > 0.01*want {
		t.Errorf("final loss %g, want %g within 1 %%", got, want)
	}
}

// awaitLoss waits until the job has logged a loss of the step or a later one.
func (f *fleet) awaitLoss(name string, step int) {
	f.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		for at := range f.losses(name) {
			if at >= step {
				return
			}
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("job %s logged no step from %d on\n%s", name, step, describe(f.mirror()))
		}
	}
}

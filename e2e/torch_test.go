package e2e

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// torchJob is examples/pytorch_ddp.py: DDP over gloo on processors.
func (s *scripts) torchJob(name string, largest, steps int) job {
	return job{
		"name": name, "min": 1, "max": largest, "batch-size": 64, "steps": steps,
		"workdir": s.dir, "checkpoint-dir": filepath.Join(s.dir, "ckpt"), "env": map[string]string{"OMP_NUM_THREADS": "1"},
		"command": []string{
			python, example(s.t, "pytorch_ddp.py"),
			"--steps", fmt.Sprint(steps), "--samples", "2048", "--log-every", "10", "--save-every", "1000000",
		},
	}
}

// losses reads the losses that rank 0 has logged, by step.
func (u *people) losses(name string) map[int]float64 {
	u.t.Helper()
	found, err := u.lossesNow(name)
	if err != nil {
		u.t.Fatal(err)
	}
	return found
}

// lossesNow is losses of a job that may have had no workers yet, which is an error.
func (u *people) lossesNow(name string) (map[int]float64, error) {
	out, errs, code := u.bellows("logs", name, "--rank", "0")
	if code != 0 {
		return nil, fmt.Errorf("logs exited %d: %s", code, errs)
	}
	found := map[int]float64{}
	for _, m := range regexp.MustCompile(`step (\d+): loss ([0-9.]+)`).FindAllStringSubmatch(out, -1) {
		step, _ := strconv.Atoi(m[1])
		found[step], _ = strconv.ParseFloat(m[2], 64)
	}
	return found, nil
}

// A real DDP job, rescaled 2 → 1 → 2, ends with the loss of a run that never was.
func TestRescaledTorchJobLearnsTheSame(t *testing.T) {
	t.Parallel()
	const steps = 200
	f := newFleet(t, config{nodes: 2, devices: 1, policy: "share"})
	id := f.submit(f.torchJob("torch", 2, steps))
	f.awaitLoss("torch", 30)
	var other cluster.JobID
	f.whileFrozen(id, func() { other = f.submit(f.sdkJob("other", 1, 1, 1<<30, 0.05)) })
	f.awaitStep("other", 3, 1)
	f.awaitLoss("torch", slices.Max(slices.Collect(maps.Keys(f.losses("torch"))))+20)
	f.whileFrozen(id, func() { f.stop(other) })
	f.awaitPhase(id, cluster.Succeeded)
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

	f.awaitPhase(f.submit(f.torchJob("alone", 1, steps)), cluster.Succeeded)
	got, want := f.losses("torch")[steps], f.losses("alone")[steps]
	t.Logf("final loss %g after rescales, %g without", got, want)
	if want == 0 || math.Abs(got-want) > 0.01*want {
		t.Errorf("final loss %g, want %g within 1 %%", got, want)
	}
}

// whileFrozen has a running job's workers stand still until what do causes halts the
// job, so that on no machine it ends before that.
func (f *fleet) whileFrozen(id cluster.JobID, do func()) {
	f.t.Helper()
	f.awaitPhase(id, cluster.Running)
	workers := f.started(id)
	tell := func(signal syscall.Signal) {
		for _, w := range workers {
			if err := syscall.Kill(w.PID, signal); err != nil {
				f.t.Error(err)
			}
		}
	}
	tell(syscall.SIGSTOP)
	do()
	f.awaitPhase(id, cluster.Halting)
	tell(syscall.SIGCONT)
}

// awaitLoss waits until the job has logged a loss of the step or a later one.
func (f *fleet) awaitLoss(name string, step int) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		logged, err := f.lossesNow(name)
		for at := range logged {
			if at >= step {
				return
			}
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("job %s logged no step from %d on: %v\n%s", name, step, err, describe(f.mirror()))
		}
	}
}

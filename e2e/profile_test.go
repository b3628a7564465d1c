package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/profile"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// paced trains nothing; its steps take as long as CURVE, which is relative to one worker,
// says of its number of workers. It tells them if REPORTS.
const paced = `import bellows, os, time
step = 0
last = bellows.resume()
if last is not None:
    step = last.step
def write(path):
    with open(os.path.join(path, "state"), "w") as f:
        f.write(str(step))
while step < STEPS and not bellows.should_stop(step):
    time.sleep(ONE / CURVE[bellows.world_size()])
    step += 1
    if REPORTS:
        bellows.report(step, loss=1 / step)
bellows.save(step, write)
`

// pacing is a job whose steps take a known time.
type pacing struct {
	name    string
	one     time.Duration // a step of one worker
	curve   string        // Python: speeds by number of workers, relative to one
	steps   int
	reports bool
}

func (s *scripts) paced(p pacing) job {
	reports := "False"
	if p.reports {
		reports = "True"
	}
	text := fmt.Sprintf("STEPS, ONE, CURVE, REPORTS = %d, %g, %s, %s\n", p.steps, p.one.Seconds(), p.curve, reports) + paced
	return job{
		"name": p.name, "min": 1, "max": 2, "batch-size": 64, "steps": p.steps, "workdir": s.dir, "checkpoint-dir": s.dir + "/ckpt",
		"command": []string{python, s.script(p.name+".py", text)},
	}
}

// A profile measures each size on idle devices, and the next job of the same command begins
// with what it has shown: its end is predicted before it has reported a step.
func TestTheNextRunBeginsWithItsProfile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2, interval: 500 * time.Millisecond})
	f.awaitIdle()
	// Steps are long, so that what a busy machine adds to each of them is little.
	p := f.paced(pacing{"paced", 500 * time.Millisecond, "{1: 1, 2: 1.7}", 10000, true})
	command := p["command"].([]string)
	flags := []string{"--workdir", f.dir, "--checkpoint-dir", filepath.Join(f.dir, "ckpt"), "--batch-size", "64", "--steps", "10000"}
	cmd := f.command(1, append(append([]string{"profile", "--seconds", "25", "-o", "json"}, flags...), append([]string{"--"}, command...)...)...)
	s := startSession(t, cmd)
	if code := s.waitWithin(2 * patience); code != 0 { // a minute, most of it measuring
		t.Fatalf("exit %d: %s", code, s.said())
	}
	var measured struct {
		Job    cluster.JobID   `json:"job"`
		Kind   string          `json:"kind"`
		Speeds []api.SizeSpeed `json:"speeds"`
		Starts []api.StartCost `json:"start_costs"`
	}
	if err := json.Unmarshal([]byte(s.out.String()), &measured); err != nil || len(measured.Speeds) != 2 || len(measured.Starts) != 2 {
		t.Fatalf("%v: %s", err, s.said())
	}
	if gain := measured.Speeds[1].StepsPerSecond / measured.Speeds[0].StepsPerSecond; gain < 1.2 || gain > 2.2 {
		t.Errorf("two workers are %.2f times as fast as one, want 1.7: %s", gain, s.out.String())
	}
	f.gone(measured.Job)

	late := append([]string{"/bin/sh", "-c", "sleep 1000"}, command...)
	_, errs, code := f.bellows(append(append([]string{"run", "-d", "--name", "next", "--kind", measured.Kind, "--min", "2", "--max", "2"}, flags...), append([]string{"--"}, late...)...)...)
	if code != 0 {
		t.Fatal(errs)
	}
	next := f.awaitShown("next", "what its kind has shown", func(s api.JobStatus) bool { return s.Workers == 2 && s.Prediction != nil })
	if len(next.Speeds) != 1 || next.Speeds[0].Workers != 2 || next.Progress.Generation != 0 {
		t.Errorf("before its first step: %+v, %+v", next.Speeds, next.Progress)
	}
	if left := next.Prediction.RemainingS; left < 1000 || left > 6000 {
		t.Errorf("10000 steps of 294 ms take %v s", left)
	}
	f.stop(cluster.JobID(next.ID))
}

// awaitIdle waits until the API of node n1 shows its devices as idle: it reads etcd's
// records by a watch of its own, which may be behind what the test has read.
func (f *fleet) awaitIdle() {
	f.t.Helper()
	f.awaitNode("n1", "alive, with all devices idle", func(n api.NodeStatus) bool {
		return profile.Idle([]api.NodeStatus{n}, cluster.Where{}) == f.config.devices
	})
}

// Ctrl-C ends the job of a profile, and nothing of it is left.
func TestCtrlCEndsAProfile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 2, interval: 500 * time.Millisecond})
	f.awaitIdle()
	p := f.paced(pacing{"paced", 50 * time.Millisecond, "{1: 1, 2: 1.7}", 100000, true})
	args := []string{"profile", "--sizes", "1", "--workdir", f.dir, "--checkpoint-dir", filepath.Join(f.dir, "ckpt"), "--batch-size", "64", "--"}
	s := startOnTerminal(t, f.command(1, append(args, p["command"].([]string)...)...))
	s.await("1 worker: trains, measured for 1m0s")
	s.press("\x03")
	if code := s.wait(); code != 130 {
		t.Errorf("exit %d: %s", code, s.said())
	}
	var id cluster.JobID
	for job := range f.mirror().Jobs {
		id = job
	}
	f.gone(id)
}

// gone demands that of a profile's job nothing is left.
func (f *fleet) gone(id cluster.JobID) {
	f.t.Helper()
	m := f.await("the profile's job to be stopped", func(m *record.Mirror) bool { return m.Job(id).State.Value.Phase == cluster.Stopped })
	if m.Job(id).Spec.Value.Priority != -cluster.MaxPriority {
		f.t.Errorf("it goes with priority %d", m.Job(id).Spec.Value.Priority)
	}
	f.nothingLeft(id)
	if left, err := filepath.Glob(filepath.Join(f.dir, "ckpt", ".bellows-profile-*")); err != nil || len(left) > 0 {
		f.t.Errorf("folders %v are left, %v", left, err)
	}
}

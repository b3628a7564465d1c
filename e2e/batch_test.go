package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// ranging trains nothing; its steps take as long whatever its batch, and it tells of much
// noise, so that the largest batch is best. It saves nothing if not SAVES, and then tells no noise while it is alone:
// however late it is halted, it starts again with the batch that it had.
const ranging = `import bellows, os, time
NOISE = 100000.0
step, done = 0, 0.0
last = bellows.resume()
if last is not None:
    step = last.step
    with open(os.path.join(last.shard(0), "done")) as f:
        done = float(f.read())
print("with", bellows.world_size(), "workers a batch of", bellows.batch_size(), flush=True)
def write(path):
    with open(os.path.join(path, "done"), "w") as f:
        f.write(str(done))
while not bellows.should_stop(step):
    time.sleep(0.5)
    step += 1
    done += bellows.gain(NOISE)
    bellows.report(step, noise_scale=NOISE if SAVES or bellows.world_size() > 1 else None, base_steps=done)
if SAVES:
    bellows.save(step, write)
`

func (s *scripts) ranging(name string, workers int, saves bool) job {
	flag := map[bool]string{true: "True", false: "False"}[saves]
	return job{
		"name": name, "min": workers, "max": workers, "batch-size": "64:1024", "micro-batch": 1024, "steps": 1_000_000,
		"workdir": s.dir, "checkpoint-dir": s.dir + "/ckpt", "command": []string{python, s.script(name+".py", "SAVES = "+flag+"\n"+ranging)},
	}
}

// A job that tells what a larger batch is worth has one when it grows. One that has to keep
// its world, as it saves nothing, keeps its batch too, though another would be better.
func TestABatchGrowsWithItsJob(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 4, policy: "flowtime", interval: time.Second})
	keeps := f.submit(f.ranging("keeps", 1, false))
	f.awaitRunning(keeps, 1, 0)
	f.await("the first step of keeps", func(m *record.Mirror) bool { return m.Node("n1").Progress.Value.Jobs[keeps].Step > 0 })
	f.scale(keeps, 2, 2) // a halt in which it saves nothing
	f.await("keeps to be pinned, and to run again", func(m *record.Mirror) bool {
		s := m.Job(keeps).State.Value
		return s.Pinned && s.Phase == cluster.Running && s.Generation > 1
	})
	pinned := f.mirror().Job(keeps).State.Value.Generation
	f.awaitReports(keeps, pinned)

	grows := f.submit(f.ranging("grows", 1, true))
	f.awaitReports(grows, f.awaitRunning(grows, 1, 0))
	f.scale(grows, 1, 2)
	m := f.await("grows to run with two workers and a larger batch", func(m *record.Mirror) bool {
		world := batchWorld(m, grows)
		return m.Job(grows).State.Value.Phase == cluster.Running && world.Size() == 2 && world.BatchSize > 64
	})
	has := batchWorld(m, grows)
	s := f.awaitShown(grows, "its batch, noise, and what its steps are worth", func(s api.JobStatus) bool {
		best := slices.ContainsFunc(s.Speeds, func(x api.SizeSpeed) bool { return x.Workers == 2 && x.Batch > 64 })
		return s.Batch == has.BatchSize && s.NoiseScale != nil && best && s.Progress.BaseSteps > s.Progress.Step
	})
	if *s.NoiseScale != 100_000 {
		t.Errorf("noise scale %v", *s.NoiseScale)
	}
	text, _, _ := f.bellows("show", string(grows))
	for _, want := range []string{fmt.Sprintf("batch of 64 to 1024 samples, now %d", has.BatchSize), "gradient noise scale 1e+05 samples", ", worth ", "BEST BATCH"} {
		if !strings.Contains(text, want) {
			t.Errorf("show has no %q:\n%s", want, text)
		}
	}
	f.awaitShown(keeps, "that a larger batch would be better", func(s api.JobStatus) bool {
		return slices.ContainsFunc(s.Speeds, func(x api.SizeSpeed) bool { return x.Workers == 2 && x.Batch > 64 })
	})
	if state, world := f.mirror().Job(keeps).State.Value, batchWorld(f.mirror(), keeps); state.Generation != pinned || world.BatchSize != 64 {
		t.Errorf("keeps has a batch of %d in generation %d, want 64 in generation %d: %s", world.BatchSize, state.Generation, pinned, f.decided())
	}
	f.awaitLogs(grows, fmt.Sprintf("with 2 workers a batch of %d", has.BatchSize))
}

// batchWorld is the newest world of a job.
func batchWorld(m *record.Mirror, id cluster.JobID) cluster.World {
	v := m.Job(id)
	return v.Generation(v.State.Value.Generation).Plan.Value.World
}

// awaitLogs waits until a job's workers have written these words. It asks less often the longer that takes: each time starts a process.
func (u *people) awaitLogs(id cluster.JobID, words string) {
	u.t.Helper()
	pause := 50 * time.Millisecond
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		pause = min(pause*5/4, 300*time.Millisecond)
		out, _, _ := u.bellows("logs", string(id))
		if strings.Contains(out, words) {
			return
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("the logs of %s never had %q:\n%s", id, words, out)
		}
	}
}

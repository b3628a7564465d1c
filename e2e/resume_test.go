package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// resume asks for a job to go on, and waits until it runs again.
func (f *fleet) resume(id cluster.JobID, more ...string) record.Plan {
	f.t.Helper()
	before := f.mirror().Job(id).State.Value.Generation
	if _, stderr, code := f.patiently(append([]string{"resume", string(id)}, more...)...); code != 0 {
		f.t.Fatalf("resume %v: exit status %d: %s", more, code, stderr)
	}
	m := f.await("the resumed job to run", func(m *record.Mirror) bool {
		s := m.Job(id).State.Value
		return s.Generation > before && s.Phase == cluster.Running
	})
	s := m.Job(id).State.Value
	return m.Job(id).Generation(s.Generation).Plan.Value
}

// saveAndStop waits until the newest committed checkpoint is of this step or a later one, and stops the job.
func (f *fleet) saveAndStop(id cluster.JobID, step int64) record.Checkpoint {
	f.t.Helper()
	f.await(fmt.Sprintf("a checkpoint of step %d", step), func(m *record.Mirror) bool {
		return m.Job(id).Committed.Value.Step >= step
	})
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	return f.mirror().Job(id).Committed.Value
}

// keptFiles fails if files are missing of a checkpoint that the records name.
func (r *records) keptFiles(id cluster.JobID) {
	r.t.Helper()
	job := r.mirror().Job(id)
	named := []record.Checkpoint{job.Committed.Value}
	for _, c := range job.Checkpoints {
		named = append(named, c.Value)
	}
	for _, b := range job.Bad {
		named = append(named, b.Value.Checkpoint)
	}
	for _, c := range named {
		if _, err := os.Stat(filepath.Join(c.Dir, "rank-00000", "state.json")); err != nil {
			r.t.Errorf("step %d of generation %d is in the records: %v", c.Step, c.Generation, err)
		}
	}
}

// saves trains until it is stopped and saves at certain steps only, and when it is stopped:
// what is saved does not depend on how fast a machine is.
const saves = `import bellows, os, time
last = bellows.resume()
step = last.step if last is not None else 0
def write(path):
    with open(os.path.join(path, "state.json"), "w") as f:
        f.write("after step %d" % step + "." * MORE)
while not bellows.should_stop(step):
    time.sleep(0.02)
    step += 1
    bellows.report(step)
    if step in SAVED:
        bellows.save(step, write)
bellows.save(step, write)
`

// saver is a job that saves at these steps, and when it is stopped.
func (s *scripts) saver(name string, steps ...int) job { return s.bigSaver(name, 0, steps...) }

// bigSaver is a saver of so many bytes more.
func (s *scripts) bigSaver(name string, more int, steps ...int) job {
	j := s.sdkJob(name, 1, 1, 1<<30, 1)
	at := strings.Trim(strings.ReplaceAll(fmt.Sprint(steps), " ", ","), "[]")
	j["command"] = []string{python, s.script(name+".py", fmt.Sprintf("SAVED, MORE = {%s}, %d\n", at, more)+saves)}
	return j
}

// A step is saved, given up, and saved again by a later generation: what is
// resumed from is the later one, and no file of it goes.
func TestAStepThatIsSavedTwiceIsTheLaterOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	id := f.submit(f.saver("twice", 20, 60))
	f.saveAndStop(id, 20)
	f.keptFiles(id)
	if p := f.resume(id, "--from-start"); p.Resume != nil {
		t.Fatalf("began at %+v", p.Resume)
	}
	f.await("step 20 again", func(m *record.Mirror) bool {
		return m.Job(id).Checkpoints[20].Value.Generation == 2
	})
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	f.keptFiles(id)
	p := f.resume(id, "--from", "20")
	if p.Resume == nil || p.Resume.Step != 20 || p.Resume.Generation != 2 {
		t.Errorf("went on from %+v", p.Resume)
	}
	f.saveAndStop(id, 60)
	f.keptFiles(id)
	if s := f.mirror().Job(id).State.Value; s.Restarts != 0 {
		t.Errorf("charged: %+v", s)
	}
}

// What happens to a checkpoint while its job is stopped is found by the very
// agent that wrote it, and costs what came after the one before. Nothing is charged.
func TestDamageAfterAStopIsFound(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(dir string) error{
		"short": func(dir string) error { return os.Truncate(filepath.Join(dir, "rank-00000", "state.json"), 100) },
		"gone":  os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, config{nodes: 1, devices: 1})
			id := f.submit(f.sdkJob(name, 1, 1, 100000, 0.01, "--save-every", "20"))
			last := f.saveAndStop(id, 40)
			if err := damage(last.Dir); err != nil {
				t.Fatal(err)
			}
			p := f.resume(id)
			if p.Resume == nil || p.Resume.Step >= last.Step {
				t.Errorf("went on from %+v because %q", p.Resume, p.Why)
			}
			if s := f.mirror().Job(id).State.Value; s.Restarts != 0 {
				t.Errorf("charged: %+v", s)
			}
		})
	}
}

// Long after a job has failed its owner comes back: what can be looked at is
// gone, and the job goes on all the same.
func TestAFailedJobIsResumedLongAfter(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	f.kill("coordinator-1")
	f.startCoordinator(2, "--keep-jobs", "3s", "--keep-resumable", "1h")
	j := f.counter("friday", 600) // so that it is seen to run when it is resumed
	j["max-restarts"] = 0
	id := f.submit(j)
	done := f.submit(f.sdkJob("done", 1, 1, 3, 0.01))
	f.awaitPhase(id, cluster.Failed)
	f.await("one to be forgotten, and of the other all but what it takes to resume it", func(m *record.Mirror) bool {
		return !m.Job(done).Spec.Exists() && m.Job(id).Spec.Exists() && len(m.Job(id).Generations) == 0
	})
	s := f.show(id)
	if s.Phase != cluster.Failed || !strings.Contains(s.Reason, "exit status 3") || len(s.Checkpoints) != 1 || !s.Checkpoints[0].Committed {
		t.Errorf("shown: %+v", s)
	}
	if p := f.resume(id); p.Resume == nil || p.Resume.Step != 20 || p.World.Generation != 2 {
		t.Errorf("went on by %+v", p)
	}
	f.awaitPhase(id, cluster.Succeeded)
}

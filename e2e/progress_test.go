package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// counter trains in hundredths of a second, tells each step with a loss of its
// own, saves at step 20, and fails once at step 57.
const counter = `import bellows, os, time
step = 0
last = bellows.resume()
if last is not None:
    step = last.step
def write(path):
    with open(os.path.join(path, "state"), "w") as f:
        f.write(str(step))
while step < LAST and not bellows.should_stop(step):
    time.sleep(0.01)
    step += 1
    bellows.report(step, loss=1 / step)
    if step == 57 and os.environ["BELLOWS_GENERATION"] == "1":
        raise SystemExit(3)
    if step == 20:
        bellows.save(step, write)
bellows.save(step, write)
`

func (s *scripts) counter(name string, last int) job {
	j := s.sdkJob(name, 1, 1, last, 1)
	j["command"] = []string{python, s.script(name+".py", fmt.Sprintf("LAST = %d\n", last)+counter)}
	return j
}

// What people read of a run that is over is what its ranks said last.
func TestTheLastWordOfARunIsShown(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	id := f.submit(f.counter("count", 80))
	f.awaitPhase(id, cluster.Succeeded)
	s := f.show(id)
	if n := len(s.Rescales); n != 2 || s.Rescales[1].LostSteps != 57-20 {
		t.Errorf("failed at step 57, with step 20 saved: %+v", s.Rescales)
	}
	if p := s.Progress; p.Step != 80 || p.Loss == nil || *p.Loss != 1.0/80 {
		t.Errorf("ended at step 80 with a loss of %v: %+v", 1.0/80, p)
	}
}

// A job that was stopped and saved well did not fail, and what its owner gives
// up is not lost.
func TestACleanStopIsNoFailure(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 1})
	id := f.submit(f.counter("clean", 100000))
	f.await("its second generation to train", func(m *record.Mirror) bool {
		return m.Node("n1").Progress.Value.Jobs[id].Generation == 2
	})
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	s := f.show(id)
	last := f.mirror().Job(id).Committed.Value
	if s.ExitCode == nil || *s.ExitCode != 0 || s.Progress.Step != last.Step || s.Progress.Loss == nil || *s.Progress.Loss != 1/float64(last.Step) {
		t.Errorf("stopped at step %d: exit code %v, %+v", last.Step, s.ExitCode, s.Progress)
	}
	f.resume(id, "--from-start")
	if r := f.show(id).Rescales[2]; r.ResumeStep != -1 || r.LostSteps != 0 {
		t.Errorf("after a resume from the start: %+v", r)
	}
	if _, stderr, code := f.bellows("stop", "--now", string(id)); code != 0 {
		t.Fatal(stderr)
	}
	f.awaitPhase(id, cluster.Stopped)
	if s := f.show(id); s.ExitCode == nil || *s.ExitCode == 0 {
		t.Errorf("killed: exit code %v", s.ExitCode)
	}
	// Until it saves anew; it may have, by now.
	if entries, err := filepath.Glob(filepath.Join(last.Dir, "*")); err != nil || len(entries) == 0 && !f.mirror().Job(id).Committed.Exists() {
		t.Errorf("the checkpoint that was given up is gone: %v", err)
	}
}

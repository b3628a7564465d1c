package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
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
	resumed := f.awaitShown(id, "its third start", func(s api.JobStatus) bool { return len(s.Rescales) == 3 })
	if r := resumed.Rescales[2]; r.ResumeStep != -1 || r.LostSteps != 0 {
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

// printer is a plain script in shell: it prints its steps as they are, or as a bar, and saves
// into its directory when it is told to end. $FROM is the step that it begins to count with.
const printer = `
trap 'echo $n > "$BELLOWS_CHECKPOINT_DIR/state"; exit 0' TERM
n=${FROM:-0}
echo "loading"
while :; do
	n=$((n+1))
	PRINT
	sleep 0.05
done
`

func (s *scripts) printer(name, prints, pattern string) job {
	j := s.shellJob(name, strings.ReplaceAll(printer, "PRINT", prints))
	j["progress"], j["steps"] = pattern, 100000
	return j
}

// A plain script's lines are read: ps and show have its step, loss and speed, and it goes on
// where it counts after a resume.
func TestAPlainScriptsLinesAreRead(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 3})
	id := f.submit(f.printer("lines", `echo "epoch 1 step $n loss 0.$n of $((n*64)) samples"`, `step (?P<step>\d+) loss (?P<loss>\S+) of (?P<samples>\d+)`))
	bar := f.submit(f.printer("bar", `printf '\r%3d%%|###   | %d/100000 [00:05<01:00,  8.71it/s, loss=1.5]' 1 $n`, "auto"))
	blind := f.submit(f.printer("blind", `echo "nothing of interest"`, `iteration (\d+)`))
	s := f.awaitShown(id, "reported with a speed", func(s api.JobStatus) bool { return s.Progress.Step > 20 && s.Progress.StepsPerSecond > 0 })
	if p := s.Progress; p.Samples != 64*p.Step || p.Loss == nil || fmt.Sprintf("%v", *p.Loss) != strings.TrimRight(fmt.Sprintf("0.%d", p.Step), "0") || p.Line != "" {
		t.Errorf("read %+v", p)
	}
	out, _, _ := f.patiently("ps")
	if row := strings.Fields(out[strings.Index(out, string(id)):]); row[5] == "-" || row[6] == "-" || row[7] == "-" {
		t.Errorf("ps has no progress, speed or loss of it:\n%s", out)
	}
	s = f.awaitShown(bar, "reported", func(s api.JobStatus) bool { return s.Progress.Step > 20 })
	if p := s.Progress; p.Loss == nil || *p.Loss != 1.5 || !strings.Contains(p.Line, "/100000 [") {
		t.Errorf("read %+v", p)
	}
	s = f.awaitShown(blind, "with a problem", func(s api.JobStatus) bool { return len(s.Problems) > 0 })
	if got := s.Problems[0].Text; !strings.Contains(got, `--progress 'iteration (\d+)': none of the first 100 lines matches`) {
		t.Errorf("problem %q", got)
	}
	// Who comes back after its end is told, too.
	f.stop(blind)
	f.awaitPhase(blind, cluster.Stopped)
	f.awaitShown(blind, "with its problem after its end", func(s api.JobStatus) bool {
		return s.Ended && len(s.Problems) > 0 && strings.Contains(s.Problems[0].Text, "none of the first 100 lines matches")
	})
	// Its next generation counts from the beginning, and is counted on.
	f.stop(id)
	f.awaitPhase(id, cluster.Stopped)
	from := f.mirror().Job(id).Committed.Value
	if from.Step < 20 {
		t.Errorf("saved step %d: it had printed 20 and more", from.Step)
	}
	f.resume(id)
	s = f.awaitShown(id, "reported anew, with a word on its counter", func(s api.JobStatus) bool {
		return s.Generation == 2 && s.Progress.Generation == 2 && s.Progress.Step > from.Step && len(s.Problems) > 0
	})
	if want := fmt.Sprintf("it resumed from step %d and its lines count from the beginning", from.Step); !strings.Contains(s.Problems[0].Text, want) {
		t.Errorf("problem %q, want …%s…", s.Problems[0].Text, want)
	}
}

// What cannot be a pattern is refused, with what would be right.
func TestProgressPatternsAreChecked(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	for pattern, want := range map[string]string{
		`step (\d+`:      "missing closing )",
		`step \d+`:       "it has no group",
		`(?P<epoch>\d+)`: `group "epoch" is not known: name groups step, loss, samples`,
	} {
		f.says(2, []string{"--progress", want}, "run", "--progress", pattern, "--", "true")
	}
}

package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/warm"
)

// What has changed since it was read is read again, by workers that are executed: a module, a file, a folder that was
// listed, what was not there, the environment file, the script itself.
func TestWhatHasChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change    func(f *fixture)
		why, want string
	}{
		"module":     {func(f *fixture) { f.writes("helper.py", "def value(): return 22\n") }, "helper.py has changed", "value 22 False False\n"},
		"data":       {func(f *fixture) { f.writes("data.txt", "22") }, "data.txt has changed", "value ['22', '1', 1] False False\n"},
		"extra":      {func(f *fixture) { f.writes("extra.py", "X = 1000\n") }, "extra.py has changed", "value ['1', '1', 1000] False False\n"},
		"env file":   {func(f *fixture) { agenttest.Write(f.t, f.order.EnvFile, "VALUE=22\n", 0o600) }, "environment has changed", "value ['1', '22', 1] False False\n"},
		"new, hides": {func(f *fixture) { f.writes("colorsys.py", "X = 22\n") }, "colorsys in ", "value ['1', '1', 1] True False\n"},
		"asked":      {func(f *fixture) { f.writes("best", "1\n") }, "best has changed", "value ['1', '1', 1] False True\n"},
		"script":     {func(f *fixture) { f.writes("train.py", "print('another')\n") }, "train.py has changed", "another\n"},
		"nothing":    {func(*fixture) {}, "", "value ['1', '1', 1] False False\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "")
			if name != "module" && name != "env file" {
				f.repeats()
			}
			f.pyScript("import os, colorsys, helper\nvalue = helper.value(), hasattr(colorsys, 'X'), os.path.exists('best')\nos.environ['RANK']\nprint('value', *value)\n")
			f.writes("helper.py", "import os, extra\nwith open('data.txt') as f: DATA = f.read()\ndef value(): return [DATA, os.environ['VALUE'], extra.X]\n")
			f.writes("data.txt", "1")
			f.writes("extra.py", "X = 1\n")
			f.order.EnvFile = filepath.Join(f.root, "env")
			agenttest.Write(t, f.order.EnvFile, "VALUE=1\n", 0o600)
			plan := f.prepares(func(*run.Prepare) {})
			f.ready(1)
			c.change(f)
			if c.why == "" {
				f.startWarm(plan)
			} else {
				f.startCold(plan, c.why)
			}
			if log := f.ended(0); log != c.want {
				t.Errorf("log: %q, want %q", log, c.want)
			}
		})
	}
}

// writes writes a file in the workdir.
func (f *fixture) writes(name, text string) {
	f.t.Helper()
	agenttest.Write(f.t, filepath.Join(f.order.Workdir, name), text, 0o644)
}

// What was seen to change is parked before, the next time: a file that each generation writes costs one cold start.
func TestWhatChangesIsLearned(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	const script = "import os\nbest = os.path.exists('best')\nos.environ['RANK']\nprint('best', best)\n"
	f.pyScript(script)
	plan := f.prepares(func(*run.Prepare) {})
	f.ready(1)
	f.writes("best", "1\n")
	f.startCold(plan, "best has changed since it was read")
	if log := f.ended(0); log != "best True\n" {
		t.Errorf("log: %q", log)
	}
	known := f.order.LearnedFile
	if l := warm.ReadLearned(known); len(l.Before) != 1 || l.Before[0].What != "path "+filepath.Join(f.order.Workdir, "best") {
		t.Fatalf("learned %+v", l.Before)
	}
	g := newFixture(t, 1, "")
	g.pyScript(script)
	g.order.LearnedFile, g.order.Workdir = known, f.order.Workdir
	plan = g.prepares(func(*run.Prepare) {})
	if r := g.ready(1); !strings.HasPrefix(r.Prepared.Parked, "train.py:2 (looks at ") {
		t.Errorf("parked at %q", r.Prepared.Parked)
	}
	if err := os.Remove(filepath.Join(f.order.Workdir, "best")); err != nil {
		t.Fatal(err)
	}
	g.startWarm(plan)
	if log := g.ended(0); log != "best False\n" {
		t.Errorf("log: %q", log)
	}
}

// What ends a process while it imports is parked before, the next time.
func TestWhatEndsAProcessIsLearned(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	// No call that is looked at: a fault in a library's own code is none either.
	f.pyScript("import ends, os\nprint('rank', os.environ['RANK'])\n")
	f.writes("ends.py", "import os, sys\nif not os.path.exists('mended'):\n    sys.setrecursionlimit(1 << 30)\n    deep = []\n    for _ in range(1000000): deep = [deep]\n    repr(deep)\n")
	plan := f.prepares(func(*run.Prepare) {})
	r := f.startPrepared()
	if !strings.Contains(r.Prepared.Cold, "while it imported ends") {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	f.writes("mended", "")
	f.startCold(plan, "ends")
	if log := f.ended(0); log != "rank 0\n" {
		t.Errorf("log: %q", log)
	}
	if l := warm.ReadLearned(f.order.LearnedFile); len(l.Before) != 1 || l.Before[0].What != "import ends" {
		t.Errorf("learned %+v", l.Before)
	}
}

// A script that is reached by a link is another one once the link leads elsewhere, as are the modules beside it.
func TestAScriptThatIsAnotherFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("")
	for version, text := range map[string]string{"v1": "one", "v2": "two"} {
		f.writes(version+"/train.py", "import os, helper\nos.environ['RANK']\nprint('"+text+"', helper.VALUE)\n")
		f.writes(version+"/helper.py", "VALUE = '"+text+"'\n")
	}
	current := filepath.Join(f.order.Workdir, "current")
	if err := os.Symlink("v1", current); err != nil {
		t.Fatal(err)
	}
	f.order.Command = []string{f.order.Command[0], "current/train.py"}
	plan := f.prepares(func(*run.Prepare) {})
	f.ready(1)
	if err := errors.Join(os.Remove(current), os.Symlink("v2", current)); err != nil {
		t.Fatal(err)
	}
	f.startCold(plan, "current/train.py has changed")
	if log := f.ended(0); log != "two two\n" {
		t.Errorf("log: %q", log)
	}
}

// Fewer workers than are parked: the others end without a line of the script more. More: the others are executed.
func TestOtherNumbersOfWorkersThanAreParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ parked, ranks int }{"fewer": {3, 1}, "more": {1, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, c.ranks, "")
			f.pyScript(ranScript + "open('ran-' + os.environ['RANK'], 'x').close()\n")
			f.writes("helper.py", "import os, time\nVALUE = 4\n")
			plan := f.prepares(func(p *run.Prepare) { p.Workers = c.parked })
			f.ready(c.parked)
			before := f.ahead()
			if r := f.startWarm(plan); len(r.Workers) != c.ranks {
				t.Errorf("workers %+v", r.Workers)
			}
			f.ended(0)
			for _, p := range before {
				f.gone("what was parked", p)
			}
			for rank := range c.ranks {
				if log := f.read("logs", "rank-"+strconv.Itoa(rank)+".log"); log != fmt.Sprintf("value 4\nrank %d parked \n", rank) {
					t.Errorf("log of rank %d: %q", rank, log)
				}
			}
			ran, err := filepath.Glob(filepath.Join(f.order.Workdir, "ran-*"))
			if err != nil || len(ran) != c.ranks {
				t.Errorf("ran %v, %v", ran, err)
			}
		})
	}
}

// More are parked once more are wanted, while those that are there wait on.
func TestMoreAreParkedWhenMoreAreWanted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3, "")
	f.pyScript(ranScript)
	f.writes("helper.py", "VALUE = 5\n")
	plan := f.prepares(func(*run.Prepare) {})
	f.ready(1)
	first := f.ahead()[0]
	f.push(run.Wish{Workers: 3})
	f.await("three are parked", func(r run.Report) bool { return r.Prepared.Ready && r.Prepared.Workers == 3 })
	f.push(run.Wish{Workers: 2}) // takes none away
	if !proc.Alive(first) || len(f.ahead()) != 3 {
		t.Errorf("parked are %v, and %v was", f.ahead(), first)
	}
	r := f.startWarm(plan)
	if f.worker(r, 0) != first {
		t.Errorf("rank 0 is %v, and %v was parked first", f.worker(r, 0), first)
	}
	if log := f.ended(2); log != "value 5\nrank 2 parked \n" {
		t.Errorf("log: %q", log)
	}
}

// A parked process is held, and halts, by the SDK as any other; what it imports of that speaks first at the release.
func TestAReleasedWorkerIsHalted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript(strings.Replace(trainer, "import os, time, bellows\n", "import os, time, bellows\nprint('imported')\n", 1))
	plan := f.prepares(func(p *run.Prepare) { p.Workers = 2 })
	if r := f.ready(2); !strings.HasSuffix(r.Prepared.Parked, "(reads RANK)") && !strings.HasSuffix(r.Prepared.Parked, "calls rank of bellows)") {
		t.Errorf("parked at %q", r.Prepared.Parked)
	}
	f.startWarm(plan)
	for i := range 2 {
		f.awaitFile("ready-" + strconv.Itoa(i))
	}
	f.push(run.Wish{Halt: halt(true, time.Minute)})
	r := f.await("held", func(r run.Report) bool { return r.Held != nil })
	if !r.Held.SDK || r.Held.Begun < 2 || r.Held.Deaf {
		t.Fatalf("held %+v", r.Held)
	}
	last := r.Held.Begun + 2
	f.push(run.Wish{Halt: halt(true, time.Minute, last)})
	if r = f.stopped(); r.Failed != nil || r.Stopped.Finished {
		t.Errorf("failed %+v, stopped %+v", r.Failed, r.Stopped)
	}
	for i := range 2 {
		if got := f.awaitFile("end-" + strconv.Itoa(i)); got != strconv.Itoa(int(last)+1)+"\n" {
			t.Errorf("rank %d ended at step %q", i, got)
		}
	}
	f.retire()
}

// TestAnInterpreterBehindAWrapper has a process stand between the shim and the one that is parked.
func TestAnInterpreterBehindAWrapper(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript("import os, sys\nprint('early')\nprint('rank', os.environ['RANK'])\nwith open('written-' + os.environ['RANK'], 'w') as f: f.write('x' * 5000)\n")
	agenttest.Write(t, filepath.Join(f.order.Workdir, "python3"), "#!/bin/sh\n"+interpreter(t)+" \"$@\"\n", 0o755)
	f.order.Command[0] = "./python3"
	plan := f.prepares(func(p *run.Prepare) { p.Workers = 2 })
	f.ready(2)
	f.startWarm(plan)
	f.stopped()
	for rank := range 2 {
		if log := f.read("logs", "rank-"+strconv.Itoa(rank)+".log"); log != fmt.Sprintf("early\nrank %d\n", rank) {
			t.Errorf("log of rank %d: %q", rank, log)
		}
		if n := len(f.read("work", "written-"+strconv.Itoa(rank))); n != 5000 {
			t.Errorf("rank %d has written %d bytes", rank, n)
		}
	}
	f.retire()
}

// An interpreter that does not import sitecustomize from PYTHONPATH would run the script beside the generation that still trains.
func TestAnInterpreterWithoutSitecustomizeRunsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("open('ran', 'a').write('ran\\n')\n")
	agenttest.Write(t, filepath.Join(f.order.Workdir, "python3"), "#!/bin/sh\nexec "+interpreter(t)+" -S \"$@\"\n", 0o755)
	f.order.Command[0] = "./python3"
	plan := f.prepares(func(*run.Prepare) {})
	if r := f.startPrepared(); r.Prepared.Ready || !strings.Contains(r.Prepared.Cold, "does not import sitecustomize") {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	if _, err := os.Stat(filepath.Join(f.order.Workdir, "ran")); err == nil {
		t.Error("it ran before its start")
	}
	f.startCold(plan, "sitecustomize")
	f.stopped()
	f.retire()
	if ran := f.read("work", "ran"); ran != "ran\n" {
		t.Errorf("ran: %q", ran)
	}
}

// TestAZipFileIsRun has the script be an archive, whose __main__.py is run: executed, and parked.
func TestAZipFileIsRun(t *testing.T) {
	t.Parallel()
	for _, warm := range []bool{false, true} {
		f := newFixture(t, 1, "")
		f.pyScript("")
		pack := exec.Command(interpreter(t), "-c", "import zipfile\nwith zipfile.ZipFile('app.zip', 'w') as z: z.writestr('__main__.py', 'import os, sys, inner; os.environ[\"RANK\"]; print(sys.argv, inner.X)'); z.writestr('inner.py', 'X = 1')")
		pack.Dir = f.order.Workdir
		if out, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		f.order.Command[1] = "app.zip"
		if warm {
			plan := f.prepares(func(*run.Prepare) {})
			f.ready(1)
			f.startWarm(plan)
		} else {
			f.start()
		}
		f.stopped()
		if log := f.read("logs", "rank-0.log"); log != "['app.zip', '--lr', '0.1'] 1\n" {
			t.Errorf("log: %q", log)
		}
		f.retire()
	}
}

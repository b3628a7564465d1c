package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/sdk"
)

// framework writes an imitation of PyTorch whose compiler, which is imported late, does something at its import.
func (f *fixture) framework(does string) {
	f.t.Helper()
	for name, text := range map[string]string{
		"__init__": "import atexit, warnings\nfrom . import random, _compile\ndef get_default_dtype(): return 0\n",
		"random":   "class State:\n    def tolist(self): return []\ndef get_rng_state(): return State()\n",
		"_compile": "def compiler():\n    import torch._dynamo\n    return torch._dynamo\n",
		"_dynamo":  "import os, time\nAT = time.monotonic()\nMODE = os.environ.get('TORCH_MODE')\n" + does,
	} {
		path := filepath.Join("installed/site-packages/torch", name+".py")
		if err := os.MkdirAll(filepath.Join(f.order.Workdir, filepath.Dir(path)), 0o755); err != nil {
			f.t.Fatal(err)
		}
		f.writes(path, text)
	}
	f.order.Env["PYTHONPATH"] = filepath.Join(f.order.Workdir, "installed/site-packages")
}

// asksForIt says whether the compiler was imported before the script had read its rank.
const asksForIt = "import os, time, torch\nrank = os.environ['RANK']\nbegan = time.monotonic()\n" +
	"print(rank, 'early' if torch._compile.compiler().AT < began else 'late')\n"

func TestWhatIsImportedLateIsImportedEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript(asksForIt)
	f.framework("")
	plan := f.prepares(func(p *run.Prepare) { p.Workers = 2 })
	f.ready(2)
	f.startWarm(plan)
	if log := f.ended(1); log != "1 early\n" {
		t.Errorf("log: %q", log)
	}
}

// If the compiler cannot be imported early, the shim parks another process, which has not imported it. The start is warm.
func TestWhatCannotBeImportedEarly(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]string{
		"prints": "print('hello')\n",
		"ends":   "import ctypes\nctypes.CDLL(None)._exit(0)\n", // as what the kernel ends
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2, "")
			f.pyScript(asksForIt)
			f.framework("if 'RANK' not in os.environ.__dict__['_data'] and b'RANK' not in os.environ.__dict__['_data']:\n    " + strings.ReplaceAll(strings.TrimSpace(does), "\n", "\n    ") + "\n")
			plan := f.prepares(func(p *run.Prepare) { p.Workers = 2 })
			f.ready(2)
			if l := warm.ReadLearned(f.order.LearnedFile); len(l.Before) != 1 || l.Before[0].What != sdk.EarlyLesson || l.Before[0].Left != 1 {
				t.Errorf("learned %+v", l.Before)
			}
			f.startWarm(plan)
			if log := f.ended(1); log != "1 late\n" {
				t.Errorf("log: %q", log)
			}
		})
	}
}

// A process that is given up takes no other with it that is parked already.
func TestWhatIsParkedStaysWhenAnotherIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, "")
	f.pyScript(asksForIt)
	// No event tells of the call: the first process succeeds, and the second prints.
	f.framework("import ctypes\nif ctypes.CDLL(None).unlink(b'token') != 0: print('hello')\n")
	f.writes("token", "")
	plan := f.prepares(func(p *run.Prepare) { p.Workers = 2 })
	f.ready(2)
	f.startWarm(plan)
	if log := f.ended(1); log != "hello\n1 late\n" {
		t.Errorf("log: %q", log)
	}
	if log := f.read("logs", "rank-0.log"); log != "0 early\n" {
		t.Errorf("log of rank 0: %q", log)
	}
}

// A process that says again and again that it cannot is executed twice.
func TestAProcessThatNeverImportsEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("")
	f.order.Command[0] = filepath.Join(f.order.Workdir, "python3")
	agenttest.Write(t, f.order.Command[0], "#!/bin/bash\necho x >>times\nprintf 'hello\\0\\0' >&3\n[[ $BELLOWS_AHEAD == *,check ]] && exit\nIFS= read -r -d '' <&3\nprintf 'cold\\0no\\0early\\0\\0' >&3\n", 0o755)
	f.prepares(func(*run.Prepare) {})
	if r := f.startPrepared(); r.Prepared.Ready || !strings.Contains(r.Prepared.Cold, warm.ErrEarly.Error()) {
		t.Errorf("prepared %+v", r.Prepared)
	}
	if b, err := os.ReadFile(filepath.Join(f.order.Workdir, "times")); err != nil || string(b) != "x\nx\nx\n" { // once to try the interpreter
		t.Errorf("executed: %q, %v", b, err)
	}
	f.kill()
}

// A worker that cannot use what it has imported early ends, and nothing is imported early for its job any more.
func TestWhatWasImportedEarlyIsOfNoUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("import os, torch\nos.environ['TORCH_MODE'] = os.environ['RANK']\ntorch._compile.compiler()\n")
	f.framework("")
	plan := f.prepares(func(*run.Prepare) {})
	f.ready(1)
	f.startWarm(plan)
	r := f.stopped()
	if r.Failed == nil || !strings.Contains(r.Failed.Reason, "it could not use what it had imported before its release") {
		t.Fatalf("failed %+v", r.Failed)
	}
	if tail := strings.Join(r.Failed.LogTail, "\n"); !strings.Contains(tail, "depends on has changed since: TORCH_MODE;") {
		t.Errorf("its last words: %q", tail)
	}
	agenttest.Eventually(t, "it is learned", func() bool {
		l := warm.ReadLearned(f.order.LearnedFile)
		return len(l.Before) == 1 && l.Before[0].What == sdk.EarlyLesson && l.Before[0].Left == warm.MostLeft
	})
	f.retire()
}

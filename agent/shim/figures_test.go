package shim

import (
	"os"
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

// TestStartFigures measures the time from START to the first step of all ranks, cold and
// warm in turn, and the memory of the ranks. BELLOWS_FIGURES_SCRIPT is a script that gets a folder as
// its argument and writes lines "L TIME STEP WORLD RANK" into its steps.log, such as that of
// bench/torchelastic; BELLOWS_FIGURES_PYTHON is its interpreter, and _RANKS and _RUNS are how
// many.
func TestStartFigures(t *testing.T) {
	script, python := os.Getenv("BELLOWS_FIGURES_SCRIPT"), os.Getenv("BELLOWS_FIGURES_PYTHON")
	if script == "" || python == "" {
		t.Skip("a measurement: BELLOWS_FIGURES_SCRIPT and BELLOWS_FIGURES_PYTHON say of what")
	}
	number := func(name string, other int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return other
	}
	learned := filepath.Join(t.TempDir(), "learned.json")
	for i := range number("BELLOWS_FIGURES_RUNS", 3) {
		for _, warm := range []bool{false, true} {
			f := newFixture(t, number("BELLOWS_FIGURES_RANKS", 2), "")
			f.order.Command = []string{python, script, f.order.Workdir}
			f.order.Env["HOME"], f.order.Env["PATH"], f.order.Env["OMP_NUM_THREADS"] = f.root, os.Getenv("PATH"), "1"
			f.order.LearnedFile = learned
			f.measure(i, warm)
		}
	}
}

func (f *fixture) measure(i int, ahead bool) {
	f.t.Helper()
	began := time.Now()
	if ahead {
		plan := f.prepares(func(p *run.Prepare) { p.Workers = len(f.order.World.Members[0].Devices) })
		r := f.startPrepared()
		f.t.Logf("%d: prepared in %.2f s, and learned was %v: %+v", i, time.Since(began).Seconds(), warm.ReadLearned(f.order.LearnedFile).Before, *r.Prepared)
		f.bind(plan)
		began = time.Now()
		f.push(run.Wish{Start: true})
	} else {
		f.start()
	}
	r := f.started()
	execed := r.ExecedAt.Sub(began)
	var last float64
	agenttest.Eventually(f.t, "first steps", func() bool {
		first := f.firstSteps()
		for _, at := range first {
			last = max(last, at)
		}
		return len(first) == len(r.Workers)
	})
	var proportional int64
	for _, w := range r.Workers {
		b, _ := os.ReadFile(proc.Root.File(w.PID, "smaps_rollup"))
		for line := range strings.Lines(string(b)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" {
				n, _ := strconv.ParseInt(fields[1], 10, 64)
				proportional += n << 10
			}
		}
	}
	f.t.Logf("%d: warm %v: executed after %.3f s, first step of all %d ranks after %.3f s, memory of all (PSS) %d MiB",
		i, r.Warm, execed.Seconds(), len(r.Workers), last-float64(began.UnixNano())/1e9, proportional>>20)
	f.push(run.Wish{Kill: "measured"})
	f.stopped()
	f.retire()
}

// firstSteps are when ranks have ended their first step, by rank.
func (f *fixture) firstSteps() map[string]float64 {
	b, err := os.ReadFile(filepath.Join(f.order.Workdir, "steps.log"))
	if err != nil {
		return nil
	}
	first := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		if w := strings.Fields(line); len(w) >= 5 && w[0] == "L" && first[w[4]] == 0 {
			first[w[4]], _ = strconv.ParseFloat(w[1], 64)
		}
	}
	return first
}

package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// loop is a script without torch that the module makes elastic; parts of it are replaced.
const loop = `import bellows, json, sys
checkpoint = bellows.resume()
step, weight = 0, 0.0
if checkpoint:
    step = checkpoint.step
    weight = json.load(open(checkpoint.shard(0) + "/weight"))
while step < 100 and not bellows.should_stop(step):
    weight += sum(bellows.global_indices(step, 1000)) / 1000
    bellows.indices(step, 1000)
    step += 1
    bellows.report(step, loss=weight)
bellows.save(step, lambda d: json.dump(weight, open(d + "/weight", "w")))
`

// tried verifies a script of the standard library alone; -S keeps Python from finding torch.
func tried(t *testing.T, script string) (Result, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(name, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Command: []string{interpreter, "-S", "-B", name}, Sizes: []int{2, 1}, Nodes: 1, StepsEach: 3, BatchSize: 8,
		Tolerance: Bitwise, Limit: 5 * time.Minute, Told: t.Output(),
	}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	return Run(t.Context(), o)
}

func TestAScriptThatStaysTheSame(t *testing.T) {
	r, err := tried(t, loop)
	if err != nil || r.Reached != Bitwise || len(r.Losses) != 6 || !r.Quantities[0].Seen {
		t.Fatalf("%v %+v", err, r)
	}
	if last := r.Losses[5]; last.Workers != 1 || last.Step != 5 || last.Never != last.Rescaled || last.Never == 0 {
		t.Errorf("%+v", last)
	}
	var worlds []string
	for _, w := range r.Worlds {
		worlds = append(worlds, fmt.Sprint(w.Rescaled, w.Workers, w.Steps))
		if w.StartS <= 0 || w.StepsS < 0 || w.EndS <= 0 || w.StartS+w.StepsS+w.EndS > r.NeverS+r.RescaledS {
			t.Errorf("%+v of %g s", w, r.NeverS+r.RescaledS)
		}
	}
	if got := strings.Join(worlds, ", "); got != "false 2 6, true 2 3, true 1 3" {
		t.Error(got)
	}
}

// TestWhatAWorldTook: the first step belongs to the start; a clock that is set meanwhile makes no time negative.
func TestWhatAWorldTook(t *testing.T) {
	w := world{began: time.Unix(100, 0), ended: time.Unix(110, 0)}
	for _, tt := range []struct {
		first, last []float64 // of each rank; nil: not seen
		want        World
	}{
		{[]float64{103, 104}, []float64{107, 106}, World{StartS: 4, StepsS: 3, EndS: 3}},
		{[]float64{104}, []float64{104}, World{StartS: 4, EndS: 6}},
		{nil, nil, World{StartS: 10}},
		{[]float64{50}, []float64{60}, World{EndS: 10}},
		{[]float64{105}, []float64{200}, World{StartS: 5, StepsS: 5}},
		{[]float64{108}, []float64{90}, World{StartS: 8, EndS: 2}},
	} {
		ranks := []rankSeen{{}}
		if tt.first != nil {
			ranks = make([]rankSeen, len(tt.first))
		}
		for r := range tt.first {
			ranks[r].FirstS, ranks[r].LastS = &tt.first[r], &tt.last[r]
		}
		if got := w.took(ranks); got != tt.want {
			t.Errorf("%v to %v: %+v, not %+v", tt.first, tt.last, got, tt.want)
		}
	}
}

func TestScriptsThatDoNot(t *testing.T) {
	for _, tt := range []struct{ name, old, replaced, finding string }{
		{"the state is not loaded", "    weight = json", "    _ = json", "loss 3"},
		{"the samples are the rank's own", "bellows.indices(step, 1000)", "bellows.indices(step, 1000, seed=bellows.world_size())", "samples 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := tried(t, strings.Replace(loop, tt.old, tt.replaced, 1))
			if err != nil || r.Good() || len(r.Findings) == 0 {
				t.Fatalf("%v %+v", err, r)
			}
			if f := r.Findings[0]; !strings.HasPrefix(tt.finding, f.Quantity) || f.Step != 3 {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestScriptsThatCannotBeVerified(t *testing.T) {
	for _, tt := range []struct{ name, script, fault string }{
		{"no module", "print('hello')", "no rank imports torch, JAX or bellows"},
		{"no save", strings.Replace(loop, "bellows.save(", "(lambda *_: 0)(", 1), "call bellows.save(step, write) after the loop"},
		{"too few steps", strings.Replace(loop, "step < 100", "step < 5", 1), "ended at step 5, before step 6: let the script train for more steps"},
		{"does not ask", strings.Replace(loop, " and not bellows.should_stop(step)", "", 1), "was to stop after step 5 and saved step 100: ask bellows.should_stop(step)"},
		{"crashes", strings.Replace(loop, "    step += 1", "    step += 1 if step != 4 or bellows.world_size() > 1 else 1 / 0", 1), "train with rescales: 1 worker from step 3: rank 0: exit status 1"},
		{"ignores its resume", strings.Replace(loop, "    step = checkpoint.step", "    step = 0", 1), "this run resumed at step 3; start your loop at resume().step"},
		{"other data", strings.Replace(loop, "bellows.indices(step, 1000)", "bellows.indices(step, 1000 + bellows.world_size())", 1), "dataset_size 1001: the checkpoint of step 3 was trained on 1000 and 1002 samples"},
		{"leaves without an end", strings.Replace(loop, "import bellows,", "import os, atexit, bellows,", 1) + "os._exit(0)\n", "a script has to end by itself"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := tried(t, tt.script)
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%v\n%+v", err, r)
			}
		})
	}
}

// TestHowWorkersEnd: what they say, and the signal that they end of, is shown.
func TestHowWorkersEnd(t *testing.T) {
	const last = "if bellows.world_size() == 1: "
	for _, tt := range []struct{ name, first, fault string }{
		{"fail", last + "raise ValueError('out of luck')", "ValueError: out of luck"},
		{"end of the signal that asks them to save", last + "os.kill(os.getpid(), 15)", "signal: terminated: it ended of the SIGTERM that asks it to save"},
		{"are killed", "if bellows.rank() == 1: os.kill(os.getpid(), 9)", "train without a rescale: 2 workers from step 0: rank 1: signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r, err := tried(t, "import os, bellows\n"+tt.first+"\n"+loop); err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%v, not %s: %+v", err, tt.fault, r)
			}
		})
	}
}

// TestAWorldThatHangsIsKilled: with what its workers have started, when its time is over.
func TestAWorldThatHangsIsKilled(t *testing.T) {
	dir := t.TempDir()
	o := Options{
		Command: []string{"sh", "-c", `sleep 1000 & echo $$ $! >"$0/$RANK.new"; mv "$0/$RANK.new" "$0/$RANK"; wait`, dir}, Sizes: []int{2, 1}, Nodes: 1, StepsEach: 1, BatchSize: 2,
		Tolerance: Bitwise, Limit: time.Second / 2,
	}
	var pids []byte
	for ; len(pids) == 0; o.Limit *= 2 { // a busy machine may need longer to begin
		if o.Limit > time.Minute {
			t.Fatalf("it had not begun within %s", o.Limit/2)
		}
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "allow it more with --limit") {
			t.Fatal(err)
		}
		pids, _ = os.ReadFile(filepath.Join(dir, "0")) // absent: not begun
	}
	for text := range strings.FieldsSeq(string(pids)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue // it is gone
		}
		if stat, err := p.Stat(); err == nil && lives(stat) { // a zombie is another's to wait for
			t.Errorf("process %s lives: %+v", text, stat)
		}
	}
}

func TestOptions(t *testing.T) {
	good := Options{Sizes: []int{8, 4}, Nodes: 1, StepsEach: 2, BatchSize: 64, Tolerance: Rounding, Limit: time.Minute}
	for _, tt := range []struct {
		change func(o *Options)
		fault  string
	}{
		{func(o *Options) { o.Sizes = []int{8} }, "--sizes: name two or more"},
		{func(o *Options) { o.Sizes = []int{8, 0} }, "--sizes 0: use numbers of workers from 1 to 64"},
		{func(o *Options) { o.Sizes = []int{8, 3} }, "--sizes 3: a batch of 64 samples is not shared evenly"},
		{func(o *Options) { o.LogicalWorkers = 4 }, "--logical-workers 4: --sizes has 8 workers, each of which needs one: use a power of two from 8 on"},
		{func(o *Options) { o.LogicalWorkers = 12 }, "--logical-workers 12: use a power of two"},
		{func(o *Options) { o.LogicalWorkers = -8 }, "--logical-workers -8: use a power of two"},
		{func(o *Options) { o.LogicalWorkers = 128 }, "--logical-workers 128: they cannot share --batch-size 64 equally: use a multiple of 128 samples"},
		{func(o *Options) { o.Sizes, o.BatchSize, o.LogicalWorkers = []int{6, 3}, 24, 8 }, "--sizes 6: so many workers cannot share 8 logical workers equally: name powers of two only"},
		{func(o *Options) { o.Nodes = 0 }, "--nodes 0: use 1 or more"},
		{func(o *Options) { o.Nodes = 3 }, "--nodes 3: 8 workers are not shared evenly by so many nodes"},
		{func(o *Options) { o.StepsEach = 0 }, "--steps-each 0"},
		{func(o *Options) { o.MicroBatch = 5 }, "--micro-batch 5: it does not divide 8, the share of each of 8 workers"},
		{func(o *Options) { o.MicroBatch = 12 }, "--micro-batch 12: it does not divide 16, the share of each of 4 workers"},
		{func(o *Options) { o.MicroBatch = 65 }, "--micro-batch 65: use 1 to 64, the batch"},
		{func(o *Options) { o.Tolerance = "1e-5" }, `--tolerance "1e-5": use bitwise, 1e-6 or statistical`},
		{func(o *Options) { o.Tolerance = Different }, `--tolerance "different"`},
		{func(o *Options) { o.Limit = 0 }, "--limit 0s"},
	} {
		o := good
		tt.change(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%v, not %s", err, tt.fault)
		}
	}
	if err := good.Check(); err != nil || good.MicroBatch != 8 {
		t.Errorf("%v, micro-batch %d", err, good.MicroBatch)
	}
}

// TestTensorsOfRanks: what ranks should hold alike is rank 0's, with what others hold in its place; what they share is put together; an average may be rank 0's alone.
func TestTensorsOfRanks(t *testing.T) {
	ranks := []part{
		{[]tensorSeen{{Name: "a", Values: 1, Digest: "x"}, {Name: "b", Values: 2, Digest: "p", Sharded: true}, {Name: "c", Values: 1, Digest: "y"}, {Name: "average 0 steps", Values: 1}}, []float64{1, 2, 3, 4, 5}},
		{[]tensorSeen{{Name: "a", Values: 1, Digest: "x"}, {Name: "b", Values: 1, Digest: "q", Sharded: true}, {Name: "c", Values: 1, Digest: "z"}}, []float64{1, 5, 6}},
	}
	got := fmt.Sprint(tensors(ranks))
	if want := "[{a x [1] false []} {b  [2 3 5] false []} {c y [4] true [[6]]} {average 0 steps  [5] false []}]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

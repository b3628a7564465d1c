package verify

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unmodified is a script that does not import bellows: it saves after SIGTERM, as docs/environment.md says.
const unmodified = `import os, signal, torch, torch.distributed as dist
from torch import nn
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if world > 1: dist.init_process_group("gloo")
x, y = torch.randn(256, 6), torch.randn(256, 2)
plain = nn.Linear(6, 2)
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
step = 0
if os.environ.get("BELLOWS_RESUME_FROM"):
    state = torch.load(os.environ["BELLOWS_RESUME_FROM"] + "/state")
    step = state["step"]
    plain.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain
class Average:
    def __init__(self): self.shadow = [p.detach().clone() for p in plain.parameters()]
    def update(self):
        for s, p in zip(self.shadow, plain.parameters()): s.mul_(0.9).add_(p.detach(), alpha=0.1)
def main():
    global step
    average = Average() if os.environ["TRAIN_ARGUMENTS"] == "average" else None
    while step < 100 and not told:
        optimizer.zero_grad()
        mine = range(16 * step + rank, 16 * (step + 1), world)
        nn.functional.mse_loss(model(x[list(mine)]), y[list(mine)]).backward()
        optimizer.step()
        if average: average.update()
        step += 1
    if rank == 0:
        directory = os.environ["BELLOWS_CHECKPOINT_DIR"] + "/step-%d" % step
        os.makedirs(directory)
        torch.save({"step": step, "model": plain.state_dict(), "optimizer": optimizer.state_dict()}, directory + "/state")
        open(directory + "/COMPLETE", "w").write("samples=%d" % (16 * step))
main()
`

// TestAScriptWithoutTheModule runs it as users do: each worker imports torch itself.
func TestAScriptWithoutTheModule(t *testing.T) {
	o := options(t, unmodified, Rounding)
	witness := hostile(t)
	o.Command = []string{interpreter, "-B", o.Command[len(o.Command)-1]}
	r, err := Run(t.Context(), *o)
	if err != nil || !r.Good() || r.Tensors.Count != 4 || len(r.Losses) != 6 || r.Losses[0] == r.Losses[5] {
		t.Errorf("%v %+v", err, r)
	}
	checkUntouched(t, witness)
}

// TestPlainCheckpoints: what a script without the module may have left at the end of a world.
func TestPlainCheckpoints(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // the step, the samples and the folder; or the fault
	}{
		{"nothing", nil, "save into $BELLOWS_CHECKPOINT_DIR after SIGTERM"},
		{"the newest complete step", map[string]string{"step-3/COMPLETE": "", "step-06/COMPLETE": "samples=96\n", "step-7/state": ""}, "6 96 step-06"},
		{"no samples", map[string]string{"step-6/COMPLETE": ""}, "6 -1 step-6"},
		{"files alone", map[string]string{"state": ""}, "6 -1 ."},
		{"files beside an incomplete step", map[string]string{"state": "", "step-6/state": ""}, "save into $BELLOWS_CHECKPOINT_DIR after SIGTERM"},
		{"hidden files", map[string]string{".state": ""}, "save into $BELLOWS_CHECKPOINT_DIR after SIGTERM"},
		{"counts anew", map[string]string{"step-3/COMPLETE": ""}, "it was to stop after step 5 and saved step 3 last"},
		{"goes on", map[string]string{"step-8/COMPLETE": ""}, "it was to stop after step 5 and saved step 8 last"},
		{"a count that is none", map[string]string{"step-6/COMPLETE": "samples=n96"}, "write samples=<N>, or nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{begin: 3, end: 6, dir: t.TempDir()}
			if err := os.MkdirAll(w.checkpoints(), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range tt.files {
				name = filepath.Join(w.checkpoints(), name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := w.plain()
			got := fmt.Sprint(err)
			if err == nil {
				dir, _ := filepath.Rel(w.checkpoints(), s.Dir)
				got = fmt.Sprintf("%d %d %s", s.Step, s.Samples, dir)
			}
			if err == nil && got != tt.want || !strings.Contains(got, tt.want) {
				t.Errorf("%q, not %q", got, tt.want)
			}
		})
	}
}

func TestHints(t *testing.T) {
	for command, want := range map[string]string{
		"kill -TERM $$": "it ended of the SIGTERM that asks it to save: handle it",
		`echo "size mismatch for 0.weight: copying a param"; exit 1`:             "the checkpoint is of another model",
		`echo 'Missing key(s) in state_dict: "2.bias"'; exit 1`:                  "the checkpoint is of another model",
		`echo 'Unexpected key(s) in state_dict: "2.bias"'; exit 1`:               "the checkpoint is of another model",
		"echo 'RuntimeError: [pair.cc] Connection closed by peer [::1]'; exit 1": "ranks take unlike numbers of batches",
		"echo 'Connection reset by peer'; exit 1":                                "ranks take unlike numbers of batches",
		"echo 'out of luck'; exit 1":                                             "",
		"kill -KILL $$":                                                          "",
	} {
		said, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		if got := hint(err, string(said)); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q", command, got)
		}
	}
}

// TestArraysOfACheckpoint: without torch's optimizers the state is what is saved, as of a script in JAX.
func TestArraysOfACheckpoint(t *testing.T) {
	r := torched(t, arrays, Bitwise)
	if !r.Good() || r.Tensors.Count != 2 || len(r.Losses) != 6 {
		t.Errorf("%+v", r)
	}
	r = torched(t, strings.Replace(arrays, `kept["speed"]`, `0 * kept["speed"]`, 1), Bitwise)
	if r.Good() || r.Tensors.Differ != 2 || r.Findings[0].Quantity != ofLoss || r.Findings[0].Step != 3 {
		t.Errorf("%+v %+v", r.Tensors, r.Findings)
	}
}

const arrays = `import numpy as np, bellows
checkpoint = bellows.resume()
step, weights, speed = 0, np.zeros(3), np.zeros(3)
if checkpoint:
    kept = np.load(checkpoint.shard(0) + "/state.npz")
    step, weights, speed = checkpoint.step, kept["weights"], kept["speed"]
while step < 100 and not bellows.should_stop(step):
    slope = np.array([bellows.global_indices(step, 100)[n] / 100 for n in range(3)]) + weights
    bellows.indices(step, 100)
    speed = 0.9 * speed - 0.1 * slope
    weights = weights + speed
    step += 1
    bellows.report(step, loss=float((weights ** 2).sum()))
bellows.save(step, lambda d: bellows.rank() == 0 and np.savez(d + "/state.npz", weights=weights, speed=speed))
`

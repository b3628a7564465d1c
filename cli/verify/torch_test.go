package verify

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// interpreter is Debian's, which scripts/setup gives torch, or as for make.
var interpreter = cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")

// hasTorch tells whether the interpreter does, and hasScaler whether its torch has a GradScaler for processors.
var (
	hasTorch  = answered("import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)")
	hasScaler = answered("import importlib.metadata as m, sys; sys.exit([int(n) for n in m.version('torch').split('.')[:2]] < [2, 3])")
)

// answered tells whether the interpreter exits 0 after some code.
func answered(code string) func() bool {
	return sync.OnceValue(func() bool { return exec.Command(interpreter, "-c", code).Run() == nil })
}

// preloaded forks the processes of scripts that need torch from one that has imported it. Some tests do without: they are
// of what a process of its own does.
var preloaded struct {
	sync.Once

	dir string
	cmd *exec.Cmd
	err error
}

func TestMain(m *testing.M) {
	status := m.Run()
	if cmd := preloaded.cmd; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // by that signal
	}
	_ = os.RemoveAll(preloaded.dir) // a temporary one, or none
	os.Exit(status)
}

// preload makes sure that the process is there, and returns the command that has it run a script.
func preload(t *testing.T, script string) []string {
	t.Helper()
	program, err := filepath.Abs("testdata/preloaded.py")
	if err != nil {
		t.Fatal(err)
	}
	preloaded.Do(func() {
		if preloaded.dir, preloaded.err = os.MkdirTemp("", "bellows-verify-test-"); preloaded.err != nil { //nolint:usetesting // it is all tests'
			return
		}
		cmd := exec.Command(interpreter, "-B", program, "serve", filepath.Join(preloaded.dir, "s"))
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if preloaded.err = cmd.Start(); preloaded.err == nil {
			preloaded.cmd = cmd
		}
	})
	if preloaded.err != nil {
		t.Fatal(preloaded.err)
	}
	socket := filepath.Join(preloaded.dir, "s")
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err = os.Stat(socket); err == nil {
			return []string{interpreter, "-S", "-E", "-B", program, "run", socket, script}
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// options are those of a script's training by 2 → 1 workers.
func options(t *testing.T, script string, wanted Class, args ...string) *Options {
	t.Helper()
	if !hasTorch() {
		t.Skip("no torch: scripts/setup test installs it")
	}
	name := filepath.Join(t.TempDir(), "script.py")
	if err := os.WriteFile(name, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TRAIN_ARGUMENTS", strings.Join(args, " "))
	o := Options{
		Command: preload(t, name), Sizes: []int{2, 1}, Nodes: 1, StepsEach: 3, BatchSize: 16,
		Tolerance: wanted, Limit: 10 * time.Minute, Told: t.Output(),
	}
	if slices.Contains(args, "uneven") { // two workers take parts of 3, 3, 2 and of 3, 2, 2 samples, and one takes 5 of 3
		o.BatchSize, o.MicroBatch, o.Uneven = 15, 3, true
	}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	return &o
}

// torched verifies a script of torch, 2 → 1 workers.
func torched(t *testing.T, script string, wanted Class, args ...string) Result {
	t.Helper()
	r, err := triedWithTorch(t, script, wanted, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func triedWithTorch(t *testing.T, script string, wanted Class, args ...string) (Result, error) {
	t.Helper()
	return Run(t.Context(), *options(t, script, wanted, args...))
}

// TestHooksOfTorch: a script with the faults that are made most, and hooks alone see them.
func TestHooksOfTorch(t *testing.T) {
	r := torched(t, careless, Statistical)
	found := map[string]Finding{}
	for _, f := range r.Findings {
		found[f.Quantity] = f
	}
	for quantity, cause := range map[string]string{
		ofSamples: "each device takes as many samples", ofLR: "the scheduler begins anew", "random state": "all ranks are seeded alike",
	} {
		if f := found[quantity]; !strings.Contains(f.Cause, cause) {
			t.Errorf("%s: %+v", quantity, f)
		}
	}
	if r.Good() || r.Tensors.Count != 4 || found["random state"].Step != 0 || found[ofLR].Step != 3 {
		t.Errorf("%+v", r)
	}
}

// careless is a script as people write them: a DataLoader with a sampler for ranks, one seed at the top.
const careless = `import torch, torch.distributed as dist, bellows
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
torch.manual_seed(1)
world = bellows.world_size()
if world > 1: dist.init_process_group("gloo")
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 2))
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, world, bellows.rank()))
plain = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5))
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
checkpoint = bellows.resume()
step = checkpoint.step if checkpoint else 0
if checkpoint: plain.load_state_dict(torch.load(checkpoint.shard(0) + "/model"))
model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain
for x, y in loader:
    if bellows.should_stop(step): break
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    scheduler.step()
    step += 1
def write(directory):
    if bellows.rank() == 0: torch.save(plain.state_dict(), directory + "/model")
bellows.save(step, write)
`

// TestWhatStaysInAnotherWorld: what docs/when-the-world-changes.md says of loops that do as it says.
func TestWhatStaysInAnotherWorld(t *testing.T) {
	// Accumulation of parts that are weighed by their samples, a schedule, clipping, an average of weights and an evaluation in each step: all of them stay.
	t.Run("accumulation, clipping, a schedule and an average of weights", func(t *testing.T) {
		r := torched(t, careful, Rounding, "uneven", "clip", "average")
		if !r.Good() || r.Tensors.Count != 4*2+5 || r.Quantities[2].Difference != 0 || r.Losses[0] == r.Losses[5] {
			t.Errorf("%+v", r)
		}
	})
	t.Run("accumulation of means", func(t *testing.T) {
		r := torched(t, careful, Rounding, "uneven", "mean")
		if f := r.Findings[0]; r.Good() || f.Quantity != ofLoss || f.Step != 3 {
			t.Errorf("%+v", r.Findings)
		}
	})
	// A sum over ranks is the evaluation of any world, and what is decided on it has a state that is saved.
	t.Run("patience with evaluations over ranks", func(t *testing.T) {
		r := torched(t, careful, Rounding, "patience")
		if !r.Good() || r.Quantities[2].Difference != 0 {
			t.Errorf("%+v", r)
		}
		r = torched(t, careful, Rounding, "patience", "forgetful")
		if f := r.Findings[0]; f.Quantity != ofLR || f.Step != 5 {
			t.Errorf("%+v", r.Findings)
		}
	})
	t.Run("mixed precision", func(t *testing.T) {
		if r := torched(t, careful, Statistical, "bfloat16"); !r.Good() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("seeded dropout", func(t *testing.T) {
		r := torched(t, careful, Bitwise, "dropout")
		if r.SamplesTwice+r.SamplesNever > 0 || slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Quantity == "random state" }) {
			t.Errorf("%+v", r)
		}
		if f := r.Findings[0]; f.Quantity != ofLoss || f.Step != 3 || !strings.Contains(f.Cause, "masks depend on the rank") {
			t.Errorf("%+v", f)
		}
	})
	t.Run("batch norm of fixed micro-batches", func(t *testing.T) {
		r := torched(t, careful, Rounding, "norm")
		if r.Quantities[3].Difference > roundingBound || r.Quantities[4].Difference > roundingBound {
			t.Errorf("losses and gradients: %+v", r.Quantities)
		}
		// The running statistics count one update a micro-batch, of the rank's own ones.
		if r.Good() || r.Tensors.Differ == 0 || !strings.HasPrefix(r.Tensors.Largest, "batch norm") {
			t.Errorf("%+v", r.Tensors)
		}
		if f := r.Findings[0]; f.Quantity != "parameters" || !strings.Contains(f.Cause, "running statistics") {
			t.Errorf("%+v", f)
		}
	})
	t.Run("running statistics that are computed anew", func(t *testing.T) {
		if r := torched(t, careful, Rounding, "norm", "anew"); !r.Good() || r.Tensors.Count != 6*2+2 {
			t.Errorf("%+v", r)
		}
	})
}

// TestLossScaling: in float16 a scaler that is saved and loaded skips the steps that it would have skipped, and scales by what it would have scaled.
func TestLossScaling(t *testing.T) {
	if !hasTorch() || !hasScaler() {
		t.Skip("torch before 2.3 scales losses on GPUs only; make examples runs this with a newer one")
	}
	if r := torched(t, careful, Statistical, "float16"); !r.Good() || len(r.Losses) != 6 || r.Tensors.Count != 4*2+1 {
		t.Errorf("%+v", r)
	}
	if f := torched(t, careful, Statistical, "float16", "forgetful").Findings[0]; f.Step != 3 || f.Cause != "the factor of the loss scaler is not what was saved" {
		t.Errorf("%+v", f)
	}
}

// TestStreams: data without indices goes on after what was consumed.
func TestStreams(t *testing.T) {
	if r := torched(t, stream, Rounding); !r.Good() || !r.Stream || r.Losses[0] == r.Losses[5] {
		t.Errorf("%+v", r)
	}
}

// stream is a script that does as the page says of data without indices.
const stream = `import itertools, torch, torch.distributed as dist, bellows
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
world = bellows.world_size()
if world > 1: dist.init_process_group("gloo")
x, y = torch.randn(256, 6), torch.randn(256, 2)
plain = nn.Linear(6, 2)
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
checkpoint = bellows.resume()
step = checkpoint.step if checkpoint else 0
if checkpoint: plain.load_state_dict(torch.load(checkpoint.shard(0) + "/model"))
model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain
class Stream(IterableDataset):
    def __iter__(self):
        consumed = checkpoint.samples if checkpoint else 0
        for n in itertools.count(consumed + bellows.rank(), world): yield x[n % 256], y[n % 256]
batches = iter(DataLoader(Stream(), batch_size=8))
while step < 100 and not bellows.should_stop(step):
    optimizer.zero_grad()
    for _ in range(bellows.accumulation_steps()):
        a, b = next(batches)
        (nn.functional.mse_loss(model(a), b) / bellows.accumulation_steps()).backward()
    optimizer.step()
    step += 1
bellows.save(step, lambda d: bellows.rank() == 0 and torch.save(plain.state_dict(), d + "/model"))
`

// careful is a script that does as the page says.
const careful = `import contextlib, os, sys, torch, torch.distributed as dist, bellows
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
torch.set_num_threads(1)
half = next((getattr(torch, name) for name in ("bfloat16", "float16") if name in sys.argv), None)
if not half: torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
world = bellows.world_size()
if world > 1: dist.init_process_group("gloo")
x, y = torch.randn(256, 6), torch.randn(256, 2)
layers = [nn.BatchNorm1d(8)] if "norm" in sys.argv else [nn.Dropout(0.3)] if "dropout" in sys.argv else []
plain = nn.Sequential(nn.Linear(6, 8), *layers, nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
if "patience" in sys.argv: # no evaluation is good enough for it
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, threshold=0.9)
kept = {"model": plain, "optimizer": optimizer, "scheduler": scheduler}
if "average" in sys.argv: kept["average"] = AveragedModel(plain, avg_fn=lambda average, new, count: 0.9 * average + 0.1 * new)
ema = {n: p.detach().clone() for n, p in plain.named_parameters()}
augmenting = torch.Generator() if "augment" in sys.argv else None
if augmenting: augmenting.manual_seed(3 + int("/never/" in os.environ["BELLOWS_CHECKPOINT_DIR"])) # as if it had no seed, but this test is not to be of chance
if "float16" in sys.argv: kept["scaler"] = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
checkpoint = bellows.resume()
step = checkpoint.step if checkpoint else 0
if checkpoint:
    state = torch.load(checkpoint.shard(0) + "/state")
    if "forgetful" in sys.argv: del state[list(state)[-1]]
    if "ema" in sys.argv: ema = state.pop("ema")
    for name in state: kept[name].load_state_dict(state[name])
model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain
while step < 100 and not bellows.should_stop(step):
    bellows.seed(step)
    optimizer.zero_grad()
    parts = bellows.micro_batches(step, len(x))
    for n, part in enumerate(parts, 1):
        with contextlib.nullcontext() if n == len(parts) or world == 1 else model.no_sync():
            with torch.autocast("cpu", half or torch.bfloat16, enabled=half is not None):
                noise = 0.1 * torch.randn(len(part), 6, generator=augmenting) if augmenting else 0
            loss = nn.functional.mse_loss(model(x[list(part)] + noise), y[list(part)])
            loss = loss / len(parts) if "mean" in sys.argv else loss * part.weight * world
            if "scaled" in sys.argv: loss = loss * world
            if "unscaled" in sys.argv: loss = loss / world
            (kept["scaler"].scale(loss) if "scaler" in kept else loss).backward()
    if "clip" in sys.argv: nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
    if "scaler" in kept:
        if step == 1: plain[0].bias.grad.fill_(float("inf")) # the scaler skips this step
        kept["scaler"].step(optimizer)
        kept["scaler"].update()
    else:
        optimizer.step()
    if "average" in kept: kept["average"].update_parameters(plain)
    if "ema" in sys.argv or "lost" in sys.argv:
        for n, p in plain.named_parameters(): ema[n] = 0.9 * ema[n] + 0.1 * p.detach()
    step += 1
    plain.eval()
    with torch.no_grad():
        plain(x + torch.rand(256, 6)) # an evaluation that draws random numbers
        mine = slice(bellows.rank(), 251, world)
        seen = torch.stack([((plain(x[mine]) - y[mine]) ** 2).sum(), torch.tensor(2.0 * len(x[mine]))])
        means = seen[0] / seen[1] / world
        if world > 1: dist.all_reduce(seen), dist.all_reduce(means)
        whole = nn.functional.mse_loss(plain(x[:251]), y[:251])
    if "patience" in sys.argv:
        assert abs(seen[0] / seen[1] - whole) < 1e-12 * whole
        assert world == 1 or abs(means - whole) > 1e-6 * whole # ranks have 126 and 125 samples
    plain.train()
    scheduler.step(*[seen[0] / seen[1]] * ("patience" in sys.argv))
if "anew" in sys.argv: update_bn(x.split(32), plain) # on all ranks, of the same samples
def write(directory):
    all = {name: each.state_dict() for name, each in kept.items()}
    if "ema" in sys.argv: all["ema"] = ema
    if bellows.rank() == 0: torch.save(all, directory + "/state")
bellows.save(step, write)
`

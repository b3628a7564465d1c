"""What `bellows verify` observes of tensors that ranks share out."""

import subprocess

import pytest

from conftest import PYTHON, script_environment

pytest.importorskip("torch")

SHARED = """
import hashlib, io, os, sys
import torch
import bellows, bellows_verify

whole = torch.arange(300_001.0)
alone = io.BytesIO()
told = bellows_verify.written(alone, "w", whole, None)
assert told["values"] == len(alone.getvalue()) // 8 <= bellows_verify.MAX_VALUES and not told["sharded"]
for world in (2, 4, 8):
    each = -(-len(whole) // world) + 3  # the last part is padded
    padded = torch.cat([whole, torch.full((world * each - len(whole),), 7.0)])
    together = io.BytesIO()
    for rank in range(world):
        told = bellows_verify.written(together, "w", padded[rank * each : (rank + 1) * each], (rank * each, len(whole)))
        assert told["sharded"]
    assert together.getvalue() == alone.getvalue(), world


class Mesh:
    ndim = 1
    def size(self):
        return 4


class Shard(torch.Tensor):  # of 10 rows of 6, as FSDP2's
    device_mesh = Mesh()
    def to_local(self):
        return self


begins = []
for rank in range(4):
    os.environ["RANK"] = str(rank)
    begins.append(bellows_verify.part_of(torch.zeros(10, 6).as_subclass(Shard)))
assert begins == [(0, 60), (18, 60), (36, 60), (54, 60)], begins
assert bellows_verify.part_of(whole) is None
os._exit(0)
"""


def test_which_values_are_written_does_not_depend_on_the_world(tmp_path):
    environ = script_environment(BELLOWS_VERIFY=tmp_path, RANK=0, WORLD_SIZE=1)
    subprocess.run([PYTHON, "-c", SHARED], env=environ, cwd=str(tmp_path), check=True, timeout=120)


ENDING = """
import gc, os, sys
import bellows, bellows_verify

class Collected:
    def __del__(self):
        os.write(1, b"collected")

gc.disable()
garbage = Collected()
garbage.itself = garbage
del garbage
for step in range(int(sys.argv[1])):
    bellows.should_stop(step)
if sys.argv[2] == "fails":
    raise ValueError
"""


@pytest.mark.parametrize(
    "steps, how, collected",
    [
        (4, "ends", ""),  # the world's last step is 3
        (4, "fails", "collected"),
        (3, "ends", "collected"),
    ],
)
def test_a_world_that_is_over_leaves_without_collecting_garbage(tmp_path, steps, how, collected):
    environ = script_environment(BELLOWS_VERIFY=tmp_path, BELLOWS_VERIFY_STOP_AFTER=3)
    command = [PYTHON, "-S", "-c", ENDING, str(steps), how]  # without site-packages there is no torch to import
    done = subprocess.run(command, env=environ, cwd=str(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.stdout.decode() == collected, done.stderr
    assert (tmp_path / "rank-00000.json").exists()


TRAINED_ON = """
import itertools
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import bellows, bellows_verify

seen = bellows_verify.recorder
data = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
mse = nn.functional.mse_loss


def loader():
    return DataLoader(data, batch_size=2)


def trained(batches, parts=1, forward=net):
    before = seen.last
    for number, (x, y) in enumerate(batches):
        mse(forward(x), y).backward()
        if (number + 1) % parts == 0:
            optimizer.step()
            optimizer.zero_grad()
    return [seen.steps[s].get("samples") for s in sorted(seen.steps) if before is None or s > before]


def ahead(batches, by):
    kept = list(itertools.islice(batches, by))
    for batch in batches:
        kept.append(batch)
        yield kept.pop(0)


def gone_past(count, batches):
    for number, batch in enumerate(batches):
        if number >= count:
            yield batch


assert trained(itertools.islice(loader(), 2)) == [[0, 1], [2, 3]]
assert trained(gone_past(3, itertools.islice(loader(), 5))) == [[6, 7], [8, 9]]
assert trained(itertools.islice(loader(), 3, 5)) == [[6, 7], [8, 9]]
assert trained(ahead(itertools.islice(loader(), 4), 2)) == [[0, 1], [2, 3]]
assert trained(gone_past(2, ahead(itertools.islice(loader(), 6), 1))) == [[4, 5], [6, 7], [8, 9]]
assert trained(gone_past(2, itertools.islice(loader(), 6)), parts=2) == [[4, 5, 6, 7], [8, 9, 10, 11]]
assert trained(gone_past(1, itertools.islice(loader(), 2)), forward=lambda x: net(x.view(-1, 3))) == [[2, 3]]
assert trained(gone_past(1, itertools.islice(loader(), 2)), forward=lambda x: net(*[{"x": x}["x"]])) == [[2, 3]]

# Where nothing of a batch goes into a module, the next ones that were taken count, as of a loss that is computed by hand.
weight = torch.zeros(3, 1, requires_grad=True)
optimizer.add_param_group({"params": [weight]})
assert trained(itertools.islice(loader(), 2), forward=lambda x: x @ weight) == [[0, 1], [2, 3]]


# An evaluation with gradients, by a loader of its own, between the forward passes of the training.
def evaluating(x):
    for other, _ in itertools.islice(loader(), 2, 3):
        net(other)
    return net(x)


assert trained(gone_past(1, itertools.islice(loader(), 3)), forward=evaluating) == [[2, 3], [4, 5]]

# One batch for two steps, and a backward pass that computes the forward pass again.
assert trained(batch for batch in itertools.islice(loader(), 1, 2) for _ in range(2)) == [[2, 3], [2, 3]]
again = lambda x: torch.utils.checkpoint.checkpoint(net, x.requires_grad_(), use_reentrant=True)
import torch.utils.checkpoint
assert trained(gone_past(1, itertools.islice(loader(), 3)), forward=again) == [[2, 3], [4, 5]]

# Batches that share their data are not told apart.
whole = DataLoader(torch.arange(8.0).reshape(8, 1), batch_size=None)
line = nn.Linear(1, 1)
optimizer.add_param_group({"params": [*line.parameters()]})
assert trained(((x, torch.ones(1)) for x in itertools.islice(whole, 2)), forward=line) == [[0], [1]]

norm = nn.BatchNorm1d(3)
for x, y in itertools.islice(loader(), 1):
    mse(net(norm(x)), y).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    torch.nn.utils.clip_grad.clip_grad_value_(net.parameters(), 1.0)
    with torch.autocast("cpu", torch.bfloat16):
        net(x)
    optimizer.step()
last = seen.steps[seen.last]
assert (last["clipped"], last["normalised"], last["precision"], last["pass"]) == (2, 2, "bfloat16", 32), last
assert seen.steps[0]["precision"] == "float32" and seen.steps[0]["clipped"] == 0

# A compiled model is traced as if nothing observed it, and what its layers do is known all the same.
if hasattr(torch, "compile"):
    layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    optimizer.add_param_group({"params": [*layers.parameters()]})
    assert trained(gone_past(1, itertools.islice(loader(), 3)), forward=torch.compile(layers, backend="eager", fullgraph=True)) == [[2, 3], [4, 5]]
    last = seen.steps[seen.last]
    assert last["dropout"] is not None and last["normalised"] == 2, last
os = __import__("os")
os._exit(0)
"""


def test_what_of_a_loader_is_trained_on(tmp_path):
    environ = script_environment(BELLOWS_VERIFY=tmp_path, BELLOWS_WORKER_SOCKET="", RANK=0, WORLD_SIZE=1)
    subprocess.run([PYTHON, "-c", TRAINED_ON], env=environ, cwd=str(tmp_path), check=True, timeout=120)


RESUMED = """
import sys
import torch
from torch import nn
import bellows, bellows_verify

bellows.position(0)  # a plain script would get a signal
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
average = torch.optim.swa_utils.AveragedModel(model)
for step in range(3):
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    scheduler.step()
    average.update_parameters(model)
    if step == 0:
        kept = optimizer.state_dict()
        for norm in model[1:]:
            norm.running_mean.fill_(7.0)
seen = bellows_verify.recorder
print([t["name"] for t in seen.began], [seen.steps[s]["place"] for s in sorted(seen.steps)], len(open(seen.name() + ".began.bin", "rb").read()))
bellows.save(3, lambda directory: None)
with torch.no_grad():
    model[0].weight.zero_()  # what a script does after its last save is not the state that it saved
seen.write()
ended = open(seen.name() + ".bin", "rb").read()
assert any(ended[:96]), "the weights of the end, not of the save"
assert [t["name"] for t in seen.ended[-5:]] == ["average 0 steps"] + [f"average 0 parameter {n}" for n in range(4)]
"""


def test_the_state_that_a_world_begins_and_ends_with(tmp_path):
    environ = script_environment(BELLOWS_VERIFY=tmp_path, BELLOWS_VERIFY_STOP_AFTER=2, RANK=0, WORLD_SIZE=1)
    environ.update(BELLOWS_RESUME_FROM=str(tmp_path), BELLOWS_RESUME_STEP="0", BELLOWS_CHECKPOINT_DIR=str(tmp_path / "saved"))
    done = subprocess.run([PYTHON, "-c", RESUMED], env=environ, cwd=str(tmp_path), stdout=subprocess.PIPE, check=True, timeout=120)
    names = ["batch norm 0 running_mean", "batch norm 0 running_var"] + [f"optimizer 0 group 0 parameter {n}" for n in range(4)]
    names += ["average 0 steps"] + [f"average 0 parameter {n}" for n in range(4)]
    # No momentum: at its first step there is none.
    assert done.stdout.decode() == f"{names} [0, 1, 2] {8 * (4 + 4 + 12 + 4 + 4 + 4 + 1 + 12 + 4 + 4 + 4)}\n"


SCALED = """
import torch
import bellows, bellows_verify

bellows.position(0)  # a plain script would get a signal
weight = torch.ones(2, requires_grad=True)
other = torch.ones(1, requires_grad=True)
optimizers = [torch.optim.SGD([w], lr=0.1) for w in (weight, other)]
scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
for step in range(3):
    scaler.scale((weight * other).sum() * 0.25).backward()
    if step == 1:
        weight.grad.fill_(float("inf"))
    for optimizer in optimizers:
        scaler.step(optimizer)
        optimizer.zero_grad()
    scaler.update()
seen = bellows_verify.recorder
assert [seen.steps[s]["square"] is None for s in (0, 1, 2)] == [False, True, False], seen.steps
assert abs(seen.steps[0]["loss"] - 0.5) < 1e-9 and abs(seen.steps[0]["square"] - 2 * 0.25**2) < 1e-9, seen.steps[0]
assert seen.steps[1]["backwards"] == 1 and 0.3 < seen.steps[1]["loss"] < 0.5 and 0.3 < seen.steps[2]["loss"] < 0.5, seen.steps
assert sorted(t["name"] for t in seen.began) == ["loss scaler 0", "optimizer 0 group 0 parameter 0"]
seen.end()
assert [float(n) for n in list(seen.state_of_scaler(0))[0][1]] == [16.0, 0.0]  # doubled, halved, doubled
"""


def scales_losses():
    code = "import sys, torch; sys.exit(not hasattr(torch.amp, 'GradScaler'))"
    return subprocess.run([PYTHON, "-c", code]).returncode == 0


@pytest.mark.skipif(not scales_losses(), reason="torch before 2.3 scales losses on GPUs only; make examples has a newer one")
def test_losses_and_steps_of_a_scaler(tmp_path):
    environ = script_environment(BELLOWS_VERIFY=tmp_path, BELLOWS_VERIFY_STOP_AFTER=2, RANK=0, WORLD_SIZE=1)
    environ.update(BELLOWS_RESUME_FROM=str(tmp_path), BELLOWS_RESUME_STEP="0")
    subprocess.run([PYTHON, "-c", SCALED], env=environ, cwd=str(tmp_path), check=True, timeout=120)


SHARED_OUT = """
import types
import torch
import bellows, bellows_verify

bellows.position(0)  # a plain script would get a signal
torch.manual_seed(1)
model = torch.nn.Linear(4, 2)  # ten values, of which this rank has the last four, filled up to six
part = torch.cat([torch.cat([p.detach().flatten() for p in model.parameters()])[6:], torch.zeros(2)]).requires_grad_()
adam = torch.optim.Adam([part], lr=0.1)


class DeepSpeedEngine(torch.nn.Module):
    def forward(self, x):
        return model(x)


engine = DeepSpeedEngine()
engine.optimizer = types.SimpleNamespace(optimizer=adam, bit16_groups=[list(model.parameters())])
for step in range(2):
    engine(torch.ones(1, 4)).sum().backward()
    part.grad = torch.cat([torch.ones(4), torch.zeros(2)])
    adam.step()
seen = bellows_verify.recorder
assert [seen.steps[s]["sharded"] for s in (0, 1)] == [True, True] and seen.steps[0]["square"] == 4.0, seen.steps
seen.end()
place = "optimizer 0 group 0 parameter 0"
found = {t["name"]: (t["values"], t["sharded"]) for t in seen.ended}
assert found == {place: (4, True), place + " exp_avg": (4, True), place + " exp_avg_sq": (4, True), place + " step": (1, False)}, found
assert {part for name, _, part in seen.state_of(0) if not name.endswith("step")} == {(6, 10)}
"""


def test_what_zero_shares_out_is_put_together(tmp_path):
    environ = script_environment(BELLOWS_VERIFY=tmp_path, BELLOWS_VERIFY_STOP_AFTER=2, RANK=1, WORLD_SIZE=2)
    subprocess.run([PYTHON, "-c", SHARED_OUT], env=environ, cwd=str(tmp_path), check=True, timeout=120)

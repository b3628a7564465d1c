"""What `bellows verify` sees of the data that a module is given, and of the state that a script holds."""

import json
import subprocess

import pytest

from conftest import PYTHON, script_environment

pytest.importorskip("torch")

GIVEN = """
import threading
import torch
from torch import nn
import torch.utils.checkpoint
import bellows, bellows_verify

bellows.position(0)  # a plain script would get a signal
seen = bellows_verify.recorder
net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
other = nn.Linear(3, 1)
head = nn.Linear(1, 1)
optimizer = torch.optim.SGD([p for m in (net, head) for p in m.parameters()], lr=0.1)
x = torch.arange(12.0).reshape(4, 3)
rows = bellows_verify.inputs_of((x,))
assert len(set(rows)) == 4 and bellows_verify.inputs_of([x[2:]]) == rows[2:]


def step(*losses):
    for loss in losses:
        loss().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return seen.steps[seen.last].get("inputs")


assert step(lambda: net(x)) == rows
assert step(lambda: net(x[:2]), lambda: net(x[2:])) == rows  # micro-batches
assert step(lambda: head(net(x[1:3]))) == rows[1:3]  # what the first module has made is no data
assert step(lambda: x[:, :1] * head.weight) is None  # nothing goes into a module
assert step(lambda: torch.utils.checkpoint.checkpoint(net, x.clone().requires_grad_(), use_reentrant=True)) == rows


def evaluated():
    other(x + 1), net(x + 2)  # with gradients, and no backward pass of them
    with torch.no_grad():
        net(x + 3)
    return nn.MSELoss()(net(x), torch.zeros(4, 1))


assert step(evaluated) == rows
thread = threading.Thread(target=net, args=(x + 4,))
assert step(lambda: (net(x), thread.start(), thread.join())[0]) == rows

# A sample is all that has as many rows, whatever its type; one number is a sample.
whole = bellows_verify.inputs_of(({"x": x, "ids": torch.arange(4), "half": x.to(torch.bfloat16), "yes": x > 5, "mask": torch.ones(7, 7)},))
assert len(set(whole)) == 4 and not set(whole) & set(rows)
assert len(bellows_verify.inputs_of((torch.tensor(3.0),))) == 1
assert bellows_verify.inputs_of((torch.zeros(5, 0),)) == bellows_verify.inputs_of((torch.ones(5, 0),))
assert bellows_verify.inputs_of((torch.zeros(bellows_verify.MAX_INPUTS + 1),)) == bellows_verify.inputs_of(()) == []
assert bellows_verify.inputs_of((torch.eye(3).to_sparse(), net[0].weight, net(x))) == []
if hasattr(torch, "compile"):
    assert step(lambda: torch.compile(net, backend="eager", fullgraph=True)(x)) == rows
__import__("os")._exit(0)
"""


def test_what_the_trained_module_is_given(tmp_path):
    environ = script_environment(BELLOWS_VERIFY=tmp_path, RANK=0, WORLD_SIZE=1)
    subprocess.run([PYTHON, "-c", GIVEN], env=environ, cwd=str(tmp_path), check=True, timeout=120)


HOLDS = """
import copy, sys
import torch
from torch import nn
import bellows, bellows_verify

bellows.position(0)  # a plain script would get a signal
seen = bellows_verify.recorder
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
net.register_buffer("codes", torch.zeros(2, 5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
swa = torch.optim.swa_utils.AveragedModel(net)
target = copy.deepcopy(net[0])


class Average:
    def __init__(self):
        self.shadow = {name: p.detach().clone() for name, p in net.named_parameters()}
        self.itself = self


ema = [Average()]
previous = [p.detach().clone() for p in net.parameters()]
step, far, counts, meta = 0, {1: {2: {3: {4: {5: net[0].weight.detach().clone()}}}}}, torch.zeros(4, 3, dtype=torch.int), torch.empty(4, 3, device="meta")
x = y = torch.randn(8, 3)


def train():
    global step
    mine = net[0].weight.detach().clone()
    for step in range(3):
        (net(x) * x[:, :1]).sum().backward()
        for old, p in zip(previous, net.parameters()):
            old.copy_(p.detach())
        optimizer.step()
        optimizer.zero_grad()
        mine += 1
        target.weight.data += 1
        net.codes += 1
        for value in ema[0].shadow.values():
            value += 1
    seen.should_stop(3, True)  # as after `if bellows.should_stop(3)`
    mine += 1  # too late


train()
bellows.save(3, lambda directory: torch.save({}, directory + "/state"))
saved = bellows_verify.digest_of(ema[0].shadow["0.weight"])
ema[0].shadow["0.weight"] += 1  # what a script does after its last save is not the state that it saved
"""


def test_what_a_script_holds(tmp_path):
    environ = script_environment(BELLOWS_VERIFY=tmp_path, BELLOWS_VERIFY_STOP_AFTER=2, RANK=0, WORLD_SIZE=1)
    script = HOLDS + "assert seen.held[\"ema[0].shadow['0.weight']\"][0] == saved\n"
    environ.update(BELLOWS_CHECKPOINT_DIR=str(tmp_path / "saved"))
    subprocess.run([PYTHON, "-c", script], env=environ, cwd=str(tmp_path), check=True, timeout=120)
    told = json.loads((tmp_path / "rank-00000.json").read_text())
    shadow = {f"ema[0].shadow['{name}']" for name in ("0.weight", "0.bias", "1.weight", "1.bias")}
    names = shadow | {"target.weight", "target.bias", "net.codes", "train() mine"} | {f"previous[{n}]" for n in range(4)}
    assert set(told["held_began"]) == set(told["held"]) == names
    assert {name for name, (_, copy) in told["held_began"].items() if copy} == names - {"net.codes"}
    assert {name for name, (_, copy) in told["held"].items() if copy} == {f"previous[{n}]" for n in range(4)}
    changed = {name for name, (digest, _) in told["held"].items() if digest != told["held_began"][name][0]}
    assert changed == names - {"target.bias"}

"""Logical workers: the same bits for any number of workers."""

import random
import socket
import subprocess

import pytest

from conftest import PYTHON, script_environment

torch = pytest.importorskip("torch")

# Four worlds of up to eight processes on a busy machine.
PATIENCE_S = 300

TRAIN = """
import os, sys, torch, torch.distributed as dist
from torch import nn

torch.set_num_threads(1)

def train(rank, world, port, until):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    import bellows
    torch.manual_seed(1)
    if world > 1:
        dist.init_process_group("gloo")
    x, y = torch.randn(512, 20), torch.randint(0, 5, (512,))
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    checkpoint = bellows.resume()
    step = checkpoint.step if checkpoint else 0
    if checkpoint:
        saved = torch.load(checkpoint.shard(0) + "/state.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    total = bellows.TreeSum(model.parameters())
    while step < until:
        optimizer.zero_grad()
        for part in bellows.micro_batches(step, len(x)):
            bellows.seed(step, part)
            loss = nn.functional.cross_entropy(model(x[list(part)]), y[list(part)]) * part.weight
            loss.backward()
            total.add(part, loss)
        loss = total.reduce()
        optimizer.step()
        step += 1
        if rank == 0:
            print("loss", loss.item().hex())
    def write(directory):
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, directory + "/state.pt")
    bellows.save(step, write)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()
    if rank == 0:
        print("parameters", sum(p.double().sum().item() for p in model.parameters()).hex())

# Each rank is forked: torch is imported once for all worlds.
for world, port, until in (map(str, w.split(":")) for w in sys.argv[1:]):
    ranks = []
    for rank in range(int(world)):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                train(rank, int(world), port, int(until))
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        ranks.append(pid)
    if any(os.waitpid(pid, 0)[1] for pid in ranks):
        sys.exit("a rank has failed")
"""


def free_port():
    """A port that stays free until its world meets: below those that the system gives to who asks for any."""
    for port in random.sample(range(28000, 32000), 100):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            pass  # another has it
    raise AssertionError("no port is free")


def train(directory, *worlds, logical=8):
    """Train in worlds of some ranks, each until a step; return the losses and what the parameters come to at the end."""
    named = []
    for world, until in worlds:
        named.append("%d:%d:%d" % (world, free_port(), until))
    names = dict(BELLOWS_CHECKPOINT_DIR=directory, BELLOWS_BATCH_SIZE=48, BELLOWS_MICRO_BATCH=2, BELLOWS_LOGICAL_WORKERS=logical)
    said = subprocess.run(
        [PYTHON, "-c", TRAIN, *named], env=script_environment(**names), stdout=subprocess.PIPE, timeout=PATIENCE_S, check=True
    ).stdout.decode()
    words = [line.split() for line in said.splitlines()]
    return [w[1] for w in words if w[0] == "loss"], [w[1] for w in words if w[0] == "parameters"][-1]


def test_losses_are_the_same_to_the_last_bit_over_8_4_8_2(tmp_path):
    never, parameters = train(tmp_path / "never", (1, 12))
    rescaled, last = train(tmp_path / "rescaled", (8, 3), (4, 6), (8, 9), (2, 12))
    assert len(never) == 12 and never[0] != never[-1]
    assert rescaled == never
    assert last == parameters


def test_other_logical_workers_round_otherwise(tmp_path):
    """Or the test above would be of something that every sum has."""
    assert train(tmp_path / "8", (1, 6))[0] != train(tmp_path / "2", (1, 6), logical=2)[0]


def test_a_step_with_workers_left_out_is_named(load):
    bellows = load(BELLOWS_LOGICAL_WORKERS=4, BELLOWS_BATCH_SIZE=8)
    total = bellows.TreeSum(torch.nn.Linear(1, 1).parameters())
    total.add(bellows.micro_batches(0, 100)[0], torch.zeros(()))
    with pytest.raises(ValueError, match="1 logical workers were added, of 4"):
        total.reduce()

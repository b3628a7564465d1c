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


SKIPPED = """
import sys
import bellows, bellows_verify

class Data:
    def detach(self):
        return self

class Loss:
    def __init__(self, device):
        self.is_cuda = device
    def detach(self):
        return self
    double = sum = detach

kept, device = int(sys.argv[1]), sys.argv[2] == "device"
seen, sampler = bellows_verify.recorder, object()
batches = [Data() for n in range(5)]
for n, data in enumerate(batches):
    seen.take(sampler, bellows_verify.Batch([n], {"mask": None, "x": [data]}))
del data, batches[: len(batches) - kept]
seen.backward(Loss(device))
del batches[:]
seen.backward(Loss(device))  # of the next batch, which may be gone
print([batch.samples[0] for batch in seen.taken[seen.training]])
"""


@pytest.mark.parametrize(
    "kept, where, left",
    [
        (1, "host", [4]),
        (2, "host", [3, 4]),  # one is read ahead
        (5, "host", [0, 1, 2, 3, 4]),
        (0, "host", [4]),  # a copy is trained on
        (1, "device", [3, 4]),  # a copy of number 3 is, for all that is known
        (5, "device", [0, 1, 2, 3, 4]),
    ],
)
def test_batches_that_a_script_goes_past_are_not_trained_on(tmp_path, kept, where, left):
    environ = script_environment(BELLOWS_VERIFY=tmp_path)
    command = [PYTHON, "-S", "-c", SKIPPED, str(kept), where]
    done = subprocess.run(command, env=environ, cwd=str(tmp_path), stdout=subprocess.PIPE, check=True, timeout=120)
    assert done.stdout.decode().strip() == str(left)

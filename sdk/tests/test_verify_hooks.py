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

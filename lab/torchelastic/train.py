"""One training loop for torchrun and for Bellows: DDP over gloo, about 50 ms a
step, 10 MB of state saved every 20 steps and, where it is asked to before a
planned stop, then too.

    train.py DIRECTORY

Each rank writes a line to DIRECTORY/steps.log when it starts (S) and after each
step (L): kind, time, step, world size, rank, process, launcher. A launcher is
what stands for a node: the torchrun agent, or the Bellows node.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ELASTIC = "BELLOWS_JOB" in os.environ
if ELASTIC:
    import bellows


def began():
    """When this process began, or went on if it had run ahead: then it began before the old world's last step."""
    now = time.time()
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    at = now - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    try:
        with open(os.path.join(sys.argv[1], "steps.log")) as f:
            last = max((float(line.split()[1]) for line in f if line.startswith("L")), default=0)
    except FileNotFoundError:
        last = 0
    return now if at < last else at


STARTED = began()
SAVE_EVERY = 20
directory = sys.argv[1]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
tail = "%d %d %d %s\n" % (world, rank, os.getpid(), os.environ.get("BELLOWS_NODE", os.getppid()))
log = os.open(os.path.join(directory, "steps.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(log, ("S %.4f 0 " % STARTED + tail).encode())

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
plain = torch.nn.Linear(64, 64)
ballast = torch.zeros(2_500_000)
step = 0


def path_of(folder):
    return os.path.join(folder, "state.pt")


def write(folder):
    """Save in folder what rank 0 has, whole or not at all."""
    if rank == 0:
        torch.save({"model": plain.state_dict(), "step": step, "ballast": ballast}, path_of(folder) + ".new")
        os.replace(path_of(folder) + ".new", path_of(folder))


def saved():
    """Return the file to resume from, or None."""
    if ELASTIC:
        checkpoint = bellows.resume()
        return path_of(checkpoint.shard(0)) if checkpoint else None
    return path_of(directory) if os.path.exists(path_of(directory)) else None


if saved():
    state = torch.load(saved())
    plain.load_state_dict(state["model"])
    step = state["step"]
model = DistributedDataParallel(plain)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

while not (ELASTIC and bellows.should_stop(step)):
    batch = torch.randn(8, 64)
    time.sleep(0.047)  # stands for a GPU's work
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    step += 1
    os.write(log, ("L %.4f %d " % (time.time(), step) + tail).encode())
    if step % SAVE_EVERY == 0:
        if ELASTIC:
            bellows.save(step, write)
        else:
            write(directory)
bellows.save(step, write)

"""A loop of DDP that is right, or has one of the faults that loops have: `bellows verify` has to name it (scripts/examples careless).

Right, it reads its loader up to where it resumes, and takes a step in micro-batches of 16. It imports torch only.
"""

import argparse
import math
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk"))
import bellows

FAULTS = ("none", "sampler", "seed", "clip", "autocast", "half", "moments", "scheduler", "rate", "last", "norm", "statistics", "average", "float16", "scale")
parser = argparse.ArgumentParser()
parser.add_argument("fault", choices=FAULTS)
parser.add_argument("--steps", type=int, default=24)
args = parser.parse_args()
fault = args.fault

rank, world = bellows.rank(), bellows.world_size()
if world > 1:
    dist.init_process_group("gloo")
half = {"autocast": torch.bfloat16, "float16": torch.float16, "scale": torch.float16}.get(fault)
if fault != "half" and half is None:
    torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
samples = 253 if fault == "last" else 256  # of 253 four ranks take 64 each, two take 127
points = torch.randn(samples, 16)
data = TensorDataset(points, points @ torch.randn(16, 10))
extra = {"seed": [nn.Dropout(0.1)], "norm": [nn.BatchNorm1d(32)], "statistics": [nn.BatchNorm1d(32)]}.get(fault, [])
plain = nn.Sequential(nn.Linear(16, 32), *extra, nn.ReLU(), nn.Linear(32, 10))
if fault == "half":
    plain.to(torch.bfloat16)
    data = TensorDataset(*(t.to(torch.bfloat16) for t in data.tensors))
if fault == "seed":
    torch.manual_seed(1 + rank)

optimizer = torch.optim.AdamW(plain.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
average = torch.optim.swa_utils.AveragedModel(plain, avg_fn=lambda before, new, count: 0.9 * before + 0.1 * new)
scaler = torch.amp.GradScaler("cpu", enabled=half is torch.float16, init_scale=256.0, growth_interval=2)
step = epoch = within = 0  # steps in all, passes over the data, and steps of this pass
checkpoint = bellows.resume()
if checkpoint:
    state = torch.load(checkpoint.shard(0) + "/state.pt")
    step = checkpoint.step
    if fault == "statistics":
        for own, kept in zip(plain.parameters(), state["model"].values()):
            own.data.copy_(kept)
    else:
        plain.load_state_dict(state["model"])
    if fault != "moments":
        optimizer.load_state_dict(state["optimizer"])
    if fault != "scheduler":
        scheduler.load_state_dict(state["scheduler"])
    if fault != "average":
        average.load_state_dict(state["average"])
    if fault != "scale":
        scaler.load_state_dict(state["scaler"])
    if fault != "sampler":
        epoch, within = state["epoch"], state["within"]
model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain

each = 64 // world if fault in ("last", "norm") else 16
parts = 64 // world // each
sampler = DistributedSampler(data, world, rank, seed=1)
loader = DataLoader(data, batch_size=each, sampler=sampler, drop_last=True)


def passes():
    """Go through the data again and again, from where the checkpoint was."""
    global epoch, within
    while True:
        sampler.set_epoch(epoch)
        for n, batch in enumerate(loader):
            if n >= within * parts:
                yield n, batch
        epoch, within = epoch + 1, 0


for n, (x, y) in passes():
    if n % parts == 0:
        if step >= args.steps or bellows.should_stop(step):
            break
        optimizer.zero_grad()
        if fault == "rate":
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * world * (1 + math.cos(math.pi * step / args.steps)) / 2
    with torch.autocast("cpu", half or torch.bfloat16, enabled=half is not None):
        loss = nn.functional.mse_loss(model(x), y) / parts
    scaler.scale(loss).backward()
    if fault == "clip":
        nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
    if (n + 1) % parts == 0:
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        average.update_parameters(plain)
        step, within = step + 1, within + 1


def write(directory):
    if rank == 0:
        model_state = dict(plain.named_parameters()) if fault == "statistics" else plain.state_dict()
        state = {"model": model_state, "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "epoch": epoch, "within": within}
        state.update(average=average.state_dict(), scaler=scaler.state_dict())
        torch.save(state, directory + "/state.pt")


bellows.save(step, write)

#!/usr/bin/env python3
"""DistributedDataParallel with a DataLoader and a schedule, elastic.

    bellows run --min 1 --max 8 --batch-size 256 -- python3 examples/ddp_loader.py
    bellows verify --sizes 4,2,4 --batch-size 64 -- python3 examples/ddp_loader.py

It needs torch. With `--model transformer` and `--model cnn` it trains another small model. The lines that make it elastic are marked with `# elastic`.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows
import small


def main():
    args = small.arguments()
    bellows.standalone(batch_size=64, directory="checkpoints/ddp_loader")
    world = bellows.world_size()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", bellows.local_rank()) if gpu else torch.device("cpu")
    if world > 1:
        dist.init_process_group("nccl" if gpu else "gloo")

    plain, data = small.learn(args)
    plain.to(device)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    step = 0
    checkpoint = bellows.resume()  # elastic
    if checkpoint:
        state = torch.load(checkpoint.shard(0) + "/state.pt", map_location=device)
        plain.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        step = checkpoint.step
    model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain

    def write(directory):
        if bellows.rank() == 0:
            state = {"model": plain.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
            torch.save(state, directory + "/state.pt")

    parts = iter(DataLoader(data, batch_sampler=bellows.MicroBatches(step, args.steps, len(data))))  # elastic
    while step < args.steps and not bellows.should_stop(step):  # elastic
        bellows.seed(step)  # elastic
        optimizer.zero_grad()
        for _ in range(bellows.accumulation_steps()):  # elastic
            x, y = (t.to(device) for t in next(parts))
            squares = nn.functional.mse_loss(model(x), y, reduction="none").mean(1)
            (squares.sum() * world / bellows.batch_size()).backward()  # DDP takes the mean over the workers
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        step += 1
        bellows.report(step)
        if step % 500 == 0:
            bellows.save(step, write)
    bellows.save(step, write)  # elastic
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

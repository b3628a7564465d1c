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
    state = {"model": plain, "optimizer": optimizer, "scheduler": scheduler}
    step = bellows.torch_load(**state)  # elastic
    model = nn.parallel.DistributedDataParallel(plain) if world > 1 else plain

    loader = DataLoader(data, batch_sampler=bellows.MicroBatches(step, args.steps, len(data)))  # elastic
    for parts in bellows.steps(loader):  # elastic
        optimizer.zero_grad()
        for x, y in parts:
            x, y = x.to(device), y.to(device)
            squares = nn.functional.mse_loss(model(x), y, reduction="none").mean(1)
            (squares.sum() * world / bellows.batch_size()).backward()  # DDP takes the mean over the workers
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        step += 1
        if step % 500 == 0:
            bellows.torch_save(step, **state)
    bellows.torch_save(step, **state)  # elastic
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

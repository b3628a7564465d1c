#!/usr/bin/env python3
"""FSDP2 with DCP, elastic: parameters and optimizer state are sharded, and read back by any number of ranks.

    bellows run --min 1 --max 8 --batch-size 256 -- python3 examples/fsdp2_dcp.py
    bellows verify --sizes 4,2,4 --batch-size 64 -- python3 examples/fsdp2_dcp.py

It needs torch (2.6 or later). `--model` chooses a small model: mlp, transformer or cnn. The lines that make it elastic are marked with `# elastic`.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows
import small


def main():
    args = small.arguments()
    bellows.standalone(batch_size=64, directory="checkpoints/fsdp2_dcp")
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", bellows.local_rank()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    world = bellows.world_size()
    if world == 1:  # without a launcher there is no other rank to meet
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "0")
    dist.init_process_group("nccl" if gpu else "gloo", rank=bellows.rank(), world_size=world)

    model, data = small.learn(args)
    model.to(device)
    for layer in (*model, model):
        if any(True for _ in layer.parameters()):
            fully_shard(layer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    step = bellows.sharded_load(model, optimizer, scheduler=scheduler)  # elastic

    loader = DataLoader(data, batch_sampler=bellows.MicroBatches(step, args.steps, len(data)))  # elastic
    for parts in bellows.steps(loader):  # elastic
        optimizer.zero_grad()
        for n, (x, y) in enumerate(parts, 1):
            model.set_requires_gradient_sync(n == bellows.accumulation_steps())
            x, y = x.to(device), y.to(device)
            squares = nn.functional.mse_loss(model(x), y, reduction="none").mean(1)
            (squares.sum() * world / bellows.batch_size()).backward()  # FSDP takes the mean over the workers
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        step += 1
        if step % 500 == 0:
            bellows.sharded_save(step, model, optimizer, scheduler=scheduler)
    bellows.sharded_save(step, model, optimizer, scheduler=scheduler)  # elastic
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

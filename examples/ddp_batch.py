#!/usr/bin/env python3
"""A batch that ranges: data-parallel training that tells Bellows what a larger batch is worth.

    bellows run --min 1 --max 8 --batch-size 64:1024 --micro-batch 32 --lr-rule sqrt -- python3 examples/ddp_batch.py

It needs torch. Each worker takes its gradients part by part, without DDP's own
averaging, so that their norms before and after it are known: by these the
gradient noise scale is measured. Averaging does not overlap the backward pass then.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows


def main():
    parser = argparse.ArgumentParser(description="learn a linear map from noisy samples")
    parser.add_argument("--steps", type=float, default=1000, help="in steps of the smallest batch")
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    bellows.standalone(batch_size=64, directory="checkpoints/ddp_batch")
    rank, world = bellows.rank(), bellows.world_size()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", bellows.local_rank()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    if world > 1:
        dist.init_process_group("nccl" if gpu else "gloo")

    torch.manual_seed(1)  # the same weights and data on all ranks
    points = torch.randn(args.samples, 16)
    targets = (points @ torch.randn(16, 4) + torch.randn(args.samples, 4)).to(device)
    points = points.to(device)
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    noise, step, done = bellows.GradientNoise(), 0, 0.0
    checkpoint = bellows.resume()
    if checkpoint:
        state = torch.load(os.path.join(checkpoint.shard(0), "state.pt"), map_location=device)
        model.load_state_dict(state["model"])
        noise.load_state_dict(state["noise"])
        step, done = checkpoint.step, state["done"]

    def write(directory):
        if rank == 0:
            state = {"model": model.state_dict(), "noise": noise.state_dict(), "done": done}
            torch.save(state, os.path.join(directory, "state.pt"))

    parts = bellows.accumulation_steps() * world
    while done < args.steps and not bellows.should_stop(step):
        total = 0.0
        for part in bellows.micro_batches(step, args.samples):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(points[part]), targets[part]).backward()
            own = torch.cat([p.grad.flatten() for p in model.parameters()])
            total = total + part.weight * torch.cat([own, (own @ own).view(1)])
        if world > 1:
            dist.all_reduce(total)  # the weights of all parts of all ranks sum to 1
        mean, small = total[:-1], total[-1].item()
        if parts > 1:
            noise.update(small, (mean @ mean).item(), parts)
        nn.utils.vector_to_parameters(mean, [p.grad for p in model.parameters()])
        for group in optimizer.param_groups:
            group["lr"] = args.lr * bellows.lr_scale(step)
        optimizer.step()
        step, done = step + 1, done + bellows.gain(noise.scale)
        bellows.report(step, noise_scale=noise.scale, base_steps=done)
    if rank == 0:
        with torch.no_grad():
            loss = nn.functional.mse_loss(model(points), targets).item()
        print("step %d, worth %.6f: noise scale %s, loss %.6f" % (step, done, noise.scale, loss), flush=True)
    bellows.save(step, write)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

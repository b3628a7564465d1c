#!/usr/bin/env python3
"""PyTorch DDP, elastic: a small convolutional network learns to read digits.

    python3 examples/pytorch_ddp.py --steps 200                      # by itself, one worker
    torchrun --nproc-per-node 2 examples/pytorch_ddp.py              # by itself, two workers
    bellows run --min 1 --max 8 -- python3 examples/pytorch_ddp.py   # elastic

It needs torch (1.13 or later) and runs on GPUs with NCCL or on processors with
gloo. The digits are drawn from a 5x7 font with random places, thickness and
noise, from a fixed seed, so there is nothing to download.

The lines that make an ordinary DDP script elastic are marked with `# elastic`.
The global batch is fixed: n workers take an n-th of it each, so the losses are
the same for any number of workers but for the rounding of sums. The numbers are
of double precision, which a network of this size can afford: in single
precision training magnifies the rounding within a hundred steps until it shows.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

# For runs without Bellows, from a checkout; Bellows puts its own first.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows

FONT = """
 ###    #    ###   ###     #  #####  ###  #####  ###   ###
#   #  ##   #   # #   #   ##  #     #         # #   # #   #
#  ##   #       #     #  # #  ####  #        #  #   # #   #
# # #   #      #    ##  #  #      # ####    #    ###   ####
##  #   #     #       # #####     # #   #  #    #   #     #
#   #   #    #    #   #    #  #   # #   #  #    #   #     #
 ###   ###  #####  ###     #   ###   ###   #     ###   ###
"""


def digits(count):
    """Return pictures of digits, 20 by 20, and which digits they are."""
    rows = [line.ljust(60) for line in FONT.split("\n")[1:8]]
    shapes = torch.tensor([[[float(row[6 * d + x] == "#") for x in range(5)] for row in rows] for d in range(10)])
    shapes = shapes.repeat_interleave(2, 1).repeat_interleave(2, 2)  # 14 by 10
    rng = torch.Generator().manual_seed(7)
    labels = torch.randint(10, (count,), generator=rng)
    tops, lefts = torch.randint(7, (count,), generator=rng), torch.randint(11, (count,), generator=rng)
    pictures = torch.zeros(count, 1, 20, 20)
    down, right = tops.view(-1, 1, 1) + torch.arange(14).view(14, 1), lefts.view(-1, 1, 1) + torch.arange(10)
    pictures[torch.arange(count).view(-1, 1, 1), 0, down, right] = shapes[labels]
    strength = 0.5 + torch.rand(count, 1, 1, 1, generator=rng)
    return pictures * strength + 0.3 * torch.randn(count, 1, 20, 20, generator=rng), labels


def network():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 5 * 5, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description="learn to read digits")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, help="samples a step over all workers, for runs without Bellows")
    parser.add_argument("--samples", type=int, default=8192, help="size of the data set")
    parser.add_argument("--save-every", type=int, default=200)
    parser.add_argument("--log-every", type=int, default=20)
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    bellows.standalone(batch_size=args.batch, directory="checkpoints/pytorch_ddp")  # elastic

    rank, world = bellows.rank(), bellows.world_size()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", bellows.local_rank()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)  # the workers of one machine share its processors
    if world > 1:
        dist.init_process_group("nccl" if gpu else "gloo")

    pictures, labels = (t.to(device) for t in digits(args.samples))
    plain = network().to(device)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    step = 0
    checkpoint = bellows.resume()  # elastic
    if checkpoint:  # elastic
        state = torch.load(os.path.join(checkpoint.shard(0), "state.pt"), map_location=device)
        plain.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = checkpoint.step  # elastic
    model = DistributedDataParallel(plain) if world > 1 else plain

    def write(directory):
        if rank == 0:  # the state is the same on all ranks
            torch.save(
                {"model": plain.state_dict(), "optimizer": optimizer.state_dict()},
                os.path.join(directory, "state.pt"),
            )

    if rank == 0:
        print("step %d: begin with %d workers on %s" % (step, world, device.type), flush=True)
    while step < args.steps and not bellows.should_stop(step):  # elastic
        mine = torch.tensor(bellows.indices(step, args.samples), device=device)  # elastic
        losses = cross_entropy(model(pictures[mine]), labels[mine], reduction="sum") / bellows.batch_size()
        optimizer.zero_grad()
        (losses * world).backward()  # DDP takes the mean over the workers, this is a sum
        optimizer.step()
        step += 1
        if step % args.log_every == 0 or step == args.steps:
            loss = losses.detach()
            if world > 1:
                dist.all_reduce(loss)
            bellows.report(step, loss=loss.item())
            if rank == 0:
                print("step %d: loss %.6f" % (step, loss.item()), flush=True)
        if step % args.save_every == 0:
            bellows.save(step, write)  # elastic
    bellows.save(step, write)  # elastic
    if rank == 0:
        print("step %d: end" % step, flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

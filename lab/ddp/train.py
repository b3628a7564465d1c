#!/usr/bin/env python3
"""A DDP job on processors, each as much slower as it is told to be.

    bellows run --max 4 -- python3 lab/ddp/train.py --steps 3000 --slower 8

The network and the pictures are those of examples/pytorch_ddp.py. After the work of
each step a worker sleeps for --slower - 1 times the processor time that it took, so that several
workers on few processors are as fast as workers with a processor each that is so much slower, and
other work on the machine hardly counts.

It notes when each world began and ended its steps, in the file --notes.
"""

import argparse
import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "..", "examples"), os.path.join(HERE, "..", "..", "sdk")]
import bellows  # noqa: E402
from pytorch_ddp import digits, network  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description="learn to read digits on slow devices")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--slower", type=float, default=8.0, help="how many times slower a device is than a processor")
    parser.add_argument("--rate", type=float, default=0.03, help="learning rate")
    parser.add_argument("--samples", type=int, default=8192, help="size of the data set")
    parser.add_argument("--loss", choices=["told", "nan", "constant", "rising", "rank-0", "none"], default="told")
    parser.add_argument("--notes", help="file to which each world's first and last step are added")
    args = parser.parse_args()

    rank, world = bellows.rank(), bellows.world_size()
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group("gloo")
    pictures, labels = digits(args.samples)
    plain = network()
    optimizer = torch.optim.SGD(plain.parameters(), lr=args.rate)
    step = bellows.torch_load(model=plain, optimizer=optimizer)
    model = DistributedDataParallel(plain) if world > 1 else plain

    began, first = time.time(), step
    while step < args.steps and not bellows.should_stop(step):
        used, total, weight = time.process_time(), 0.0, 0.0
        parts = bellows.micro_batches(step, args.samples)
        for i, part in enumerate(parts):
            alone = world > 1 and i + 1 < len(parts)
            with model.no_sync() if alone else contextlib.nullcontext():
                mine = torch.tensor(part)
                loss = cross_entropy(model(pictures[mine]), labels[mine]) * part.weight
                (loss * world).backward()  # DDP takes the mean over the workers, this is a sum
            total, weight = total + loss.item(), weight + part.weight
        time.sleep((args.slower - 1) * (time.process_time() - used))
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        tell(args.loss, step, total / weight)
    bellows.torch_save(step, model=plain, optimizer=optimizer)
    if rank == 0 and args.notes:
        with open(args.notes, "a") as f:
            note = {"workers": world, "from": first, "to": step, "began": began, "ended": time.time()}
            f.write(json.dumps(note) + "\n")
    if world > 1:
        dist.destroy_process_group()


def tell(how, step, loss):
    """Report a step, with its loss or with what is told in place of it."""
    told = {"told": loss, "nan": float("nan"), "constant": 2.3, "rising": step / 100, "none": None}
    told["rank-0"] = loss if bellows.rank() == 0 else None
    bellows.report(step, loss=told[how])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""accelerate, elastic: a cosine schedule, gradient accumulation.

    bellows run --min 1 --max 8 --batch-size 256 -- python3 examples/accelerate_ddp.py
    bellows verify --sizes 4,2,4 --batch-size 64 -- python3 examples/accelerate_ddp.py

It needs accelerate. `--model` chooses a small model: mlp, transformer or cnn. Bellows starts the workers; `accelerate launch` is not needed.
The lines that make it elastic are marked with `# elastic`.
"""

import os
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows
import small


def main():
    args = small.arguments()
    bellows.standalone(batch_size=64, directory="checkpoints/accelerate_ddp")
    model, data = small.learn(args)
    accelerator = Accelerator(**bellows.accelerate_arguments())  # elastic
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    step = bellows.torch_load(**state)  # elastic
    loader = DataLoader(data, batch_sampler=bellows.MicroBatches(step, args.steps, len(data)))  # elastic, and not prepared
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)

    for parts in bellows.steps(loader):  # elastic
        for x, y in parts:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x.to(accelerator.device)), y.to(accelerator.device))
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        scheduler.step()
        step += 1
    bellows.torch_save(step, **state)  # elastic
    accelerator.end_training()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Lightning, elastic: a cosine schedule, a loop that is not your own.

    bellows run --min 1 --max 8 --batch-size 256 -- python3 examples/lightning_ddp.py
    bellows verify --sizes 4,2,4 --batch-size 64 -- python3 examples/lightning_ddp.py

It needs lightning (2.2 or later). `--model` chooses a small model: mlp, transformer or cnn. The lines that make it elastic are marked with `# elastic`.
"""

import os
import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows
import small


class Directions(LightningModule):
    def __init__(self, net, steps):
        super().__init__()
        self.net, self.steps = net, steps

    def training_step(self, batch, number):
        x, y = batch
        return nn.functional.mse_loss(self.net(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main():
    args = small.arguments()
    bellows.standalone(batch_size=64, directory="checkpoints/lightning_ddp")
    net, data = small.learn(args)

    checkpoint = bellows.resume()  # elastic
    start = checkpoint.step if checkpoint else 0  # elastic
    loader = DataLoader(data, batch_sampler=bellows.MicroBatches(start, args.steps, len(data)))  # elastic
    trainer = Trainer(
        max_steps=args.steps,
        accelerator="auto",
        logger=False,
        enable_progress_bar=False,
        **{"callbacks": [bellows.lightning_callback()], **bellows.lightning_arguments()},  # elastic
    )
    trainer.fit(Directions(net, args.steps), loader, ckpt_path=checkpoint and checkpoint.shard(0) + "/lightning.ckpt")  # elastic


if __name__ == "__main__":
    main()

"""Lightning made elastic without the integration, by its own sampler: `bellows verify` has to find what is wrong (scripts/examples careless)."""

import os
import sys

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import bellows
import small


class Elastic(Callback):
    def on_train_batch_end(self, trainer, *_):
        if bellows.should_stop(trainer.global_step):
            trainer.should_stop = True

    def on_train_end(self, trainer, module):
        bellows.save(trainer.global_step, lambda directory: trainer.save_checkpoint(directory + "/last.ckpt"))


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


args = small.arguments()
net, data = small.learn(args)
checkpoint = bellows.resume()
local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
trainer = Trainer(
    max_steps=args.steps,
    devices=local,
    num_nodes=bellows.world_size() // local,
    strategy="ddp",
    callbacks=[Elastic()],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
loader = DataLoader(data, batch_size=bellows.batch_size() // bellows.world_size(), shuffle=True)
trainer.fit(Directions(net, args.steps), loader, ckpt_path=checkpoint and checkpoint.shard(0) + "/last.ckpt")

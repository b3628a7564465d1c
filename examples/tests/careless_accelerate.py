"""accelerate as its own examples have it, with a checkpoint: `bellows verify` has to find what is wrong (scripts/examples careless)."""

import os
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import bellows
import small

args = small.arguments()
model, data = small.learn(args)
accelerator = Accelerator(cpu=not torch.cuda.is_available())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
loader = DataLoader(data, batch_size=bellows.batch_size() // bellows.world_size(), shuffle=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
checkpoint = bellows.resume()
step = 0
if checkpoint:
    accelerator.load_state(checkpoint.shard(0))
    step = checkpoint.step
for x, y in loader:
    if bellows.should_stop(step):
        break
    loss = nn.functional.mse_loss(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    step += 1
bellows.save(step, accelerator.save_state)

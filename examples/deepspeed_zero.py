#!/usr/bin/env python3
"""DeepSpeed with ZeRO stage 1 or 2, elastic: each rank has a part of the optimizer's state, and any number of ranks reads it back.

    bellows run --min 1 --max 8 --batch-size 256 -- python3 examples/deepspeed_zero.py
    bellows verify --sizes 4,2,4 --batch-size 64 -- python3 examples/deepspeed_zero.py

It needs torch and DeepSpeed. `--model` chooses a small model: mlp, transformer or cnn; `--stage` is ZeRO's. The lines that make it elastic are marked with `# elastic`.
"""

import os
import sys

import deepspeed
import torch
from torch import nn
from torch.utils.data import DataLoader

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows
import small


def main():
    args = small.arguments(stage=2)
    bellows.standalone(batch_size=64, directory="checkpoints/deepspeed_zero")
    for name, alone in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0")):
        os.environ.setdefault(name, alone)  # without a launcher there is no other rank to meet

    model, data = small.learn(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    config = {"zero_optimization": {"stage": args.stage}, "gradient_clipping": 1.0, "zero_allow_untested_optimizer": True}
    config.update(bellows.deepspeed_arguments())  # elastic
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, lr_scheduler=scheduler, config=config)
    step = bellows.deepspeed_load(engine)  # elastic

    loader = DataLoader(data, batch_sampler=bellows.MicroBatches(step, args.steps, len(data)))  # elastic
    for parts in bellows.steps(loader):  # elastic
        for x, y in parts:
            engine.backward(nn.functional.mse_loss(engine(x.to(engine.device)), y.to(engine.device)))
            engine.step()
        step += 1
        if step % 500 == 0:
            bellows.deepspeed_save(step, engine)
    bellows.deepspeed_save(step, engine)  # elastic
    engine.destroy()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

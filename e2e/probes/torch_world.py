"""Ranks meet by torch.distributed over gloo and sum up; the group belongs to this world."""
import os
import torch
import torch.distributed as dist
import json
import signal
import time

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
x = torch.rand(3)
total = x.clone()
dist.all_reduce(total)
seeds = [None] * dist.get_world_size()
dist.all_gather_object(seeds, torch.initial_seed())

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "rank", [dist.get_rank(), dist.get_world_size()])
say("FACT", "mine", x.tolist())
say("FACT", "total", [round(v, 4) for v in total.tolist()])
say("FACT", "seeds", seeds)
say("FACT", "backend", dist.get_backend())

stop = torch.zeros(1)
signal.signal(signal.SIGTERM, lambda *_: stop.fill_(1))
step = 0
while True:
    step += 1
    time.sleep(0.05)
    flag = stop.clone()
    dist.all_reduce(flag)
    print(f"step {step}", flush=True)
    if flag.item():
        break
torch.save({"step": step}, os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{dist.get_rank()}.pt"))

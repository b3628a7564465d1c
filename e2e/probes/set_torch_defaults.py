"""torch's default dtype, threads and flags are set before a module makes tensors at its import."""
import os

os.environ["OMP_NUM_THREADS"] = "1"
import torch

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.use_deterministic_algorithms(True)
torch.set_printoptions(precision=2)

import constants
import json
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "dtype", str(constants.SCALE.dtype))
say("FACT", "grad", (constants.SCALE * torch.ones(1, requires_grad=True)).requires_grad)
say("FACT", "module-grad", constants.TRACKED.requires_grad)
say("FACT", "text", constants.TEXT)
say("FACT", "threads", [torch.get_num_threads(), torch.get_num_interop_threads() > 0])
say("FACT", "deterministic", torch.are_deterministic_algorithms_enabled())
say("FACT", "sum", torch.full((10,), 0.1).sum().item())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

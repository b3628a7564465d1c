# setup: mkdir lib && gcc -shared -fPIC -o lib/libcuda.so.1 cuda.c
# env: LD_LIBRARY_PATH={work}/src/lib
"""A driver that counts the devices of CUDA_VISIBLE_DEVICES and refuses what a fork took over."""
import ctypes
import devices
import json
import os
import signal
import time

lib = ctypes.CDLL("libcuda.so.1")
count, context = ctypes.c_int(-1), ctypes.c_void_p()
status = [lib.cuInit(0), lib.cuDeviceGetCount(ctypes.byref(count))]

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "at-import", [devices.STATUS, devices.COUNT])
say("FACT", "status", status)
say("FACT", "count", count.value)
say("FACT", "context", lib.cuCtxCreate_v2(ctypes.byref(context), 0, int(os.environ["LOCAL_RANK"])))
say("FACT", "inits", lib.testInits())
say("FACT", "available", devices.available())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

"""An event loop and its objects are made by a module at its import and used by the script."""
import asyncio
import service
import json
import os
import signal
import time


async def work():
    loop = asyncio.get_running_loop()
    process = await asyncio.create_subprocess_exec("printenv", "RANK", stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(process.communicate(), 10)
    blocking = await loop.run_in_executor(None, os.getpid)
    return [out.decode().strip(), blocking == os.getpid()]


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


asyncio.set_event_loop(service.LOOP)
say("FACT", "work", service.LOOP.run_until_complete(work()))
say("FACT", "policy", type(asyncio.get_event_loop_policy()).__name__)
say("FACT", "done", service.LOOP.run_until_complete(service.TASK))
say("FACT", "closed", service.LOOP.is_closed())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

"""Processes that a module forks at its import, and children that the script starts and waits for."""
import helper
import json
import os
import signal
import subprocess
import time

helper.to_child.write(b"rank\n")
helper.to_child.flush()
answer = helper.from_child.readline().decode().strip()
daemon = subprocess.Popen(["sleep", "1000"])
time.sleep(0.2)  # the kernel changes its name a moment later
mine = open(f"/proc/self/task/{os.getpid()}/children").read().split()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "answer", answer)
say("FACT", "parent", helper.PARENT == os.getpid())
say("FACT", "children", sorted(open(f"/proc/{p}/comm").read().strip() for p in mine))
say("FACT", "wait", os.waitpid(helper.CHILD, os.WNOHANG)[0])
say("FACT", "poll", daemon.poll())
say("FACT", "session", os.getsid(daemon.pid) == os.getsid(0))
daemon.kill()
daemon.wait()

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
helper.to_child.close()
os.waitpid(helper.CHILD, 0)

"""Who the process is: ids, session, group, parent, command line."""
import os
import watchdog
import json
import signal
import sys
import threading
import time

with open("/proc/self/stat") as f:
    stat = f.read()
name, fields = stat[stat.index("(") + 1:stat.rindex(")")], stat.rpartition(")")[2].split()
with open("/proc/%d/comm" % os.getppid()) as f:
    parent = f.read().strip()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "name", name)
say("FACT", "leader", [os.getpid() == os.getpgrp(), os.getpid() == os.getsid(0), int(fields[2]) == os.getpid()])
say("FACT", "terminal", [fields[4], fields[5]])
say("FACT", "parent", parent)
say("FACT", "same-at-import", [watchdog.PID == os.getpid(), watchdog.PARENT == os.getppid(), watchdog.orphaned()])
say("FACT", "ids", [os.getresuid(), os.getresgid(), os.getgroups()])
say("FACT", "thread", [threading.get_native_id() == os.getpid(), threading.current_thread() is threading.main_thread()])
with open("/proc/self/cmdline") as f:
    say("FACT", "cmdline", f.read().split("\0"))
say("FACT", "exe", os.readlink("/proc/self/exe"))
say("FACT", "children", open(f"/proc/self/task/{os.getpid()}/children").read())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

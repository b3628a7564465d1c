"""Which descriptors are open, of what kind, and which number the next one gets."""
import os
import fcntl
import stat


def kind(fd):
    mode = os.fstat(fd).st_mode
    return "fifo" if stat.S_ISFIFO(mode) else "char" if stat.S_ISCHR(mode) else "socket" if stat.S_ISSOCK(mode) else "file"


listed = sorted(int(n) for n in os.listdir("/proc/self/fd"))
open_now = {}
for fd in listed:
    try:
        open_now[fd] = [kind(fd), fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD), os.get_inheritable(fd)]
    except OSError:
        pass  # that of the listing itself
following = os.open("/dev/null", os.O_RDONLY)

import json
import signal
import subprocess
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "open", open_now)
say("FACT", "next", following)
say("FACT", "stdin", os.readlink("/proc/self/fd/0"))
say("FACT", "same-output", os.path.sameopenfile(1, 2))
say("FACT", "child", subprocess.getoutput("ls /proc/self/fd | sort -n | tr '\\n' ' '"))
say("FACT", "locks", open("/proc/locks").read().count(f" {os.getpid()} "))

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

"""What the kernel says of the process: threads, signal masks, capabilities, namespaces."""
import os

with open("/proc/self/status") as f:
    STATUS = dict(line.rstrip("\n").split(":\t", 1) for line in f)
import json
import ctypes
import signal
import time

KEYS = ("Name Umask TracerPid Uid Gid Groups Threads SigQ SigPnd ShdPnd SigBlk SigIgn SigCgt CapInh CapPrm CapEff "
        "CapBnd CapAmb NoNewPrivs Seccomp Speculation_Store_Bypass Cpus_allowed_list Mems_allowed_list THP_enabled CoreDumping").split()
libc = ctypes.CDLL(None)
prctl = {}
for name, number in (("dumpable", 3), ("keepcaps", 7), ("securebits", 27), ("timerslack", 30), ("thp", 42), ("nnp", 39)):
    prctl[name] = libc.prctl(number, 0, 0, 0, 0)
value = ctypes.c_int()
for name, number in (("pdeathsig", 2), ("subreaper", 37)):
    libc.prctl(number, ctypes.byref(value), 0, 0, 0)
    prctl[name] = value.value


def text(name):
    try:
        with open("/proc/self/" + name) as f:
            return f.read().strip()
    except OSError as e:
        return e.strerror


def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


for key in KEYS:
    if key != "SigQ":
        say("FACT", key, STATUS.get(key))
say("FACT", "prctl", prctl)
say("FACT", "namespaces", {n: os.readlink("/proc/self/ns/" + n) for n in sorted(os.listdir("/proc/self/ns"))})
say("FACT", "texts", {n: text(n) for n in ("oom_score_adj", "coredump_filter", "personality", "loginuid", "comm", "wchan")})
say("FACT", "root", [os.readlink("/proc/self/root"), text("mountinfo") == open("/proc/1/mountinfo").read().strip()])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

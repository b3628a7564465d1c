"""Handlers, masks and timers of signals, as found and as set by a module at its import."""
import signal


def show(handler):
    return getattr(handler, "name", None) or getattr(handler, "__name__", str(handler))


FOUND = {s.name: show(signal.getsignal(s)) for s in sorted(signal.valid_signals()) if isinstance(s, signal.Signals)}
MASK = sorted(int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, []))
import alarms
import json
import faulthandler
import os
import subprocess
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "found", FOUND)
say("FACT", "mask", MASK)
say("FACT", "pending", [int(s) for s in signal.sigpending()])
say("FACT", "module", [show(signal.getsignal(signal.SIGUSR1)), 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500])
os.kill(os.getpid(), signal.SIGUSR1)
say("FACT", "received", alarms.RECEIVED)
say("FACT", "faulthandler", faulthandler.is_enabled())
say("FACT", "wakeup", signal.set_wakeup_fd(-1))
say("FACT", "child", subprocess.getoutput("grep -h '^Sig[BI]' /proc/self/status"))
signal.alarm(0)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

# needs: psutil
"""psutil looks at this process and its parent at a module's import."""
import monitor
import json
import os
import psutil
import signal
import time

me = psutil.Process()

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "pid", [monitor.ME.pid == os.getpid(), monitor.ME == me, monitor.ME.is_running()])
say("FACT", "parent", [monitor.PARENT.pid == os.getppid(), monitor.PARENT.name()])
say("FACT", "status", [me.status(), me.num_threads(), me.nice(), me.username()])
say("FACT", "cwd", me.cwd() == os.getcwd())
say("FACT", "cmdline", me.cmdline())
say("FACT", "children", [c.name() for c in me.children(recursive=True)])
say("FACT", "files", [os.path.basename(f.path) for f in me.open_files()])
say("FACT", "connections", len(me.connections() if hasattr(me, "connections") else me.net_connections()))
say("TIME", "created", me.create_time() + 1)  # the boot is known in whole seconds
say("TIME", "created-at-import", monitor.CREATED + 1)
say("FACT", "environ", me.environ().get("RANK") == os.environ["RANK"])

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

"""Loggers and handlers that modules configure at their import, with a file for each rank."""
import logging
import log_setup
import json
import os
import signal
import time

log = logging.getLogger("train")
log.info("first of the script")
record = log.makeRecord("train", logging.INFO, __file__, 1, "x", (), None)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "handlers", [type(h).__name__ for h in logging.getLogger().handlers])
say("FACT", "level", logging.getLevelName(log.getEffectiveLevel()))
say("FACT", "process", [record.process == os.getpid(), record.processName, record.threadName])
say("FACT", "relative", record.relativeCreated < 60000)
say("TIME", "start", record.created - record.relativeCreated / 1000)
lines = open(log_setup.FILE).read().splitlines()
say("LATE", "file", lines)
say("FACT", "names", sorted(n for n in logging.root.manager.loggerDict if not n.startswith(("concurrent", "asyncio"))))
say("FACT", "adapter", log_setup.ADAPTER.extra)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)
log.info("last of generation %s", os.environ["BELLOWS_GENERATION"])

"""Standard input, output and error: kinds, encodings, buffering, and reading to the end."""
import sys
import io

AT_IMPORT = sys.stdin.read()
import json
import os
import signal
import time

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


def describe(f):
    return [f.isatty(), f.encoding, f.errors, f.line_buffering, getattr(f, "write_through", None), f.fileno(), f.mode, f.name, f.newlines]


say("FACT", "stdin", [AT_IMPORT, sys.stdin.read(), os.read(0, 10).decode()])
for name in ("stdin", "stdout", "stderr"):
    say("FACT", "about-" + name, describe(getattr(sys, name)))
    say("FACT", "original-" + name, getattr(sys, name) is getattr(sys, f"__{name}__"))
say("FACT", "types", [type(sys.stdout.buffer).__name__, type(sys.stdout.buffer.raw).__name__ if hasattr(sys.stdout.buffer, "raw") else ""])
say("FACT", "columns", os.environ.get("COLUMNS"))
try:
    os.get_terminal_size()
except OSError as e:
    say("FACT", "terminal", e.strerror)
sys.stdout.reconfigure(line_buffering=False)

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

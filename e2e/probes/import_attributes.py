"""What sys says of the interpreter and of how it was started."""
import sys

PATH = list(sys.path)
import json
import os
import signal
import time
import types

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "argv", [sys.argv, [os.path.basename(a) for a in sys.orig_argv]])
say("FACT", "flags", str(sys.flags))
say("FACT", "path", PATH)
say("FACT", "executable", [sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix])
say("FACT", "finders", [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path])
say("FACT", "hooks", [getattr(h, "__name__", type(h).__name__) for h in sys.path_hooks])
say("FACT", "excepthook", [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__,
                           sys.unraisablehook is sys.__unraisablehook__, sys.breakpointhook is sys.__breakpointhook__])
say("FACT", "limits", [sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()])
say("FACT", "encodings", [sys.getdefaultencoding(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()])
say("FACT", "coroutine", [sys.get_coroutine_origin_tracking_depth(), str(sys.get_asyncgen_hooks())])
say("FACT", "names", sorted(n for n in vars(sys) if not n.startswith("__")))
say("FACT", "interactive", hasattr(sys, "ps1") or bool(sys.flags.interactive))
say("FACT", "dlopen", sys.getdlopenflags())

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step = int(os.environ.get("BELLOWS_RESUME_STEP") or 0)
while not stop:
    step += 1
    time.sleep(0.05)
    print(f"step {step}", flush=True)
with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
    json.dump({"step": step}, f)

"""umask and working directory, as found, and set before a module writes a file at its import."""
import os

FOUND = os.umask(0o077)
import writer
import json
import signal
import stat
import time

os.umask(FOUND)

def say(kind, name, value):
    where = f"rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} gen={os.environ['BELLOWS_GENERATION']}"
    print(f"{kind} {where} name={name} value={json.dumps(value)}", flush=True)


say("FACT", "found", oct(FOUND))
say("FACT", "mode", oct(stat.S_IMODE(os.stat(writer.path()).st_mode)))
say("FACT", "written", open(writer.path()).read())
say("FACT", "folder", oct(stat.S_IMODE(os.stat(os.environ["BELLOWS_CHECKPOINT_DIR"]).st_mode)))
say("FACT", "cwd", os.getcwd() == os.path.dirname(os.path.abspath(__file__)))

class Trainer:
    def __init__(self):
        self.step, self.halted = 0, False
        mine = os.path.join(os.environ.get("BELLOWS_RESUME_FROM") or "/nowhere", f"rank{os.environ['RANK']}.json")
        if os.path.exists(mine):
            with open(mine) as f:
                self.step = json.load(f)["step"]
        signal.signal(signal.SIGTERM, self.halt)

    def halt(self, *_):
        self.halted = True

    def fit(self):
        while not self.halted:
            self.step += 1
            time.sleep(0.05)
            print(f"step {self.step}", flush=True)
        with open(os.path.join(os.environ["BELLOWS_CHECKPOINT_DIR"], f"rank{os.environ['RANK']}.json"), "w") as f:
            json.dump({"step": self.step}, f)


if __name__ == "__main__":
    Trainer().fit()

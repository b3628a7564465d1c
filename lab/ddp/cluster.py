"""A cluster by bellows dev, and what is asked of it: for pair.py and iterations.py."""

import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = os.path.join(HERE, "train.py")
BINARY = os.environ.get("BELLOWS", os.path.join(HERE, "..", "..", "bin", "bellows"))
PATIENCE = 900.0  # seconds after which what is waited for does not come


class Cluster:
    """One node with four devices, in a directory of its own, as long as the with statement goes on."""

    def __init__(self, policy, interval, slower):
        self.slower = slower
        self.directory = tempfile.mkdtemp(prefix="ddp-")
        self.socket = os.path.join(self.directory, "s")
        log = open(os.path.join(self.directory, "dev.log"), "wb")
        self.dev = subprocess.Popen(
            [BINARY, "dev", "--nodes", "1", "--devices-per-node", "4", "--policy", policy, "--interval", interval]
            + ["--data-dir", os.path.join(self.directory, "data"), "--socket", self.socket],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip

    def __enter__(self):
        self.until(lambda: any(n["alive"] for n in self.ask("nodes") or []))
        return self

    def __exit__(self, *_):
        self.dev.terminate()
        self.dev.wait()

    def call(self, what, *args):
        return subprocess.run([BINARY, what, "--socket", self.socket, *args], capture_output=True, text=True)

    def ask(self, what, *args):
        """Answer what a command says in JSON; None where it fails."""
        done = self.call(what, "-o", "json", *args)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def until(self, holds, every=0.2):
        """Wait until holds() is true, and return that."""
        late = time.time() + PATIENCE
        while time.time() < late:
            seen = holds()
            if seen:
                return seen
            time.sleep(every)
        sys.exit("what was waited for did not come: see %s" % self.directory)

    def trains(self, name, steps, *more):
        """The flags and the command of a job."""
        return [
            "--name", name, "--workdir", self.directory, "--checkpoint-dir", os.path.join(self.directory, name),
            "--env", "OMP_NUM_THREADS=1", *more, "--", sys.executable, TRAIN,
            "--steps", str(steps), "--slower", str(self.slower), "--notes", os.path.join(self.directory, name + ".notes"),
        ]  # fmt: skip

    def submit(self, name, steps, *more):
        done = self.call("run", "-d", *self.trains(name, steps, *more))
        if done.returncode != 0:
            sys.exit(done.stderr)

    def job(self, name):
        return self.ask("show", name) or {}

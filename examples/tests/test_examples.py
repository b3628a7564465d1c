"""Run each example for real, without Bellows: alone, as two workers by hand, stopped and resumed."""

import importlib.util
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys

import pytest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PATIENCE_S = 120  # importing torch on a busy machine


def free_port(host):
    """A port that stays free until rank 0 listens: below those that the system gives to who asks for any."""
    for port in random.sample(range(28000, 32000), 100):
        try:
            with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                return port
        except OSError:
            pass  # another has it
    raise AssertionError("no port is free on " + host)


class Run:
    """The workers of one run of an example."""

    def __init__(self, script, *args, world=1, directory, resume_from="", batch=64, host="127.0.0.1", env=None):
        port = free_port(host)
        base = {k: v for k, v in os.environ.items() if not k.startswith("BELLOWS_")}
        base.update(MASTER_ADDR=host, MASTER_PORT=str(port), WORLD_SIZE=str(world), PYTHONDONTWRITEBYTECODE="1")
        base.update(BELLOWS_CHECKPOINT_DIR=str(directory), BELLOWS_RESUME_FROM=str(resume_from))
        base.update(env or {}, BELLOWS_BATCH_SIZE=str(batch))
        self.workers = [
            subprocess.Popen(
                [sys.executable, os.path.join(EXAMPLES, script), *args],
                env=dict(base, RANK=str(rank), LOCAL_RANK=str(rank)),
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]

    def finish(self):
        """Wait for all of them to exit 0; return what rank 0 printed."""
        try:
            said = [w.communicate(timeout=PATIENCE_S)[0] for w in self.workers]
        finally:
            for w in self.workers:
                w.kill()
        assert [w.returncode for w in self.workers] == [0] * len(self.workers), said
        return said[0]


def losses(text):
    return [float(x) for x in re.findall(r"loss ([0-9.]+)", text)]


def state(directory, step):
    with open(str(directory / "step-{}".format(step) / "state.json")) as f:
        return json.load(f)


def test_plain_learns_the_same_with_two_workers(tmp_path):
    one = losses(Run("plain.py", "--steps", "300", directory=tmp_path / "1").finish())
    two = losses(Run("plain.py", "--steps", "300", world=2, directory=tmp_path / "2").finish())
    assert one == pytest.approx(two, abs=2e-6) and len(one) == 3
    assert one[-1] < one[0] < 0.7
    assert state(tmp_path / "1", 300)["weights"] == pytest.approx(state(tmp_path / "2", 300)["weights"], rel=1e-6)


def test_plain_stops_and_goes_on(tmp_path):
    stopped = Run("plain.py", world=2, directory=tmp_path / "a")
    first = stopped.workers[0].stdout
    for line in iter(first.readline, ""):
        if line.startswith("step 100:"):
            break
    stopped.workers[1].send_signal(signal.SIGTERM)  # one of them is enough: they agree
    stopped.finish()
    (name,) = os.listdir(str(tmp_path / "a"))
    step = int(name[len("step-") :])
    assert step > 100 and (tmp_path / "a" / name / "COMPLETE").exists()

    steps = str(step + 50)
    resumed = Run("plain.py", "--steps", steps, directory=tmp_path / "b", resume_from=tmp_path / "a" / name).finish()
    assert resumed.startswith("step {}: begin with 1 workers".format(step))
    Run("plain.py", "--steps", steps, directory=tmp_path / "c").finish()
    a, c = state(tmp_path / "b", steps), state(tmp_path / "c", steps)
    assert a["weights"] == pytest.approx(c["weights"], rel=1e-6) and a["position"] == c["position"]


def minimal(*args, **run):
    return Run("sdk_minimal.py", "--worker-seconds", "0", "--dataset-size", "100", *args, **run).finish()


def test_minimal_sees_the_same_when_rescaled(tmp_path):
    trace = str(tmp_path / "trace")
    never = minimal("--steps", "40", directory=tmp_path / "never")
    for steps, world in (("10", 2), ("20", 4), ("30", 1), ("40", 2)):
        said = minimal("--steps", steps, "--trace", trace, "--state-bytes", "3000001", world=world, directory=tmp_path / "r")
    assert said.splitlines()[-1] == never.splitlines()[-1]
    assert said.startswith("step 30: begin as rank 0 of 2")

    with open(trace) as f:
        lines = [json.loads(line) for line in f]
    seen = [i for line in sorted(lines, key=lambda x: (x["step"], x["rank"])) for i in line["samples"]]
    assert len(seen) == 40 * 64
    for epoch in range(25):
        assert sorted(seen[100 * epoch : 100 * (epoch + 1)]) == list(range(100))
    sizes = [p.stat().st_size for p in (tmp_path / "r" / "step-000000000020").glob("rank-*/ballast.bin")]
    assert len(sizes) == 4 and sum(sizes) == 3000001


def ddp(*args, **run):
    return Run("pytorch_ddp.py", "--samples", "512", "--log-every", "10", *args, **run).finish()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_ddp_learns_the_same_when_rescaled(tmp_path):
    one = ddp("--steps", "60", directory=tmp_path / "1")
    begun = ddp("--steps", "30", world=2, directory=tmp_path / "2")
    rest = ddp("--steps", "60", directory=tmp_path / "2")
    assert rest.startswith("step 30: begin with 1 workers")
    assert losses(begun + rest) == pytest.approx(losses(one), abs=2e-6)
    assert len(losses(one)) == 6 and losses(one)[-1] < losses(one)[0] < 2.5


def ranging(*args, **run):
    said = Run("ddp_batch.py", "--samples", "1024", *args, **run).finish()
    return [float(x) for x in re.fullmatch(r"step (\d+), worth ([0-9.]+): noise scale ([0-9.]+), loss ([0-9.]+)", said.strip()).groups()]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_gradient_noise_is_measured_by_ranks_as_by_micro_batches(tmp_path):
    two = ranging("--steps", "60", world=2, directory=tmp_path / "2")
    one = ranging("--steps", "60", directory=tmp_path / "1", env={"BELLOWS_MICRO_BATCH": "32"})
    assert one == pytest.approx(two, rel=1e-5) and one[0] == 60


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_larger_batch_needs_fewer_steps(tmp_path):
    step, done, noise, loss = ranging("--steps", "100", world=2, directory=tmp_path)
    large = {"BELLOWS_BASE_BATCH_SIZE": "64", "BELLOWS_LR_RULE": "sqrt"}
    # One worker that takes its share at once sees no noise: it goes on with the scale that it had.
    steps, worth, kept, less = ranging("--steps", "200", batch=256, directory=tmp_path, env=large)
    assert (step, done, kept) == (100, 100, noise)
    gain = (noise / 64 + 1) / (noise / 256 + 1)
    assert 1 < gain < 4 and steps == 100 + -(-100 // gain) and worth == pytest.approx(100 + (steps - 100) * gain, abs=1e-3)
    assert less < loss


def spmd(*args, **run):
    return Run("jax_spmd.py", "--samples", "512", "--schedule", "60", "--log-every", "10", *args, **run).finish()


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_jax_learns_the_same_when_rescaled(tmp_path, host):
    one = spmd("--steps", "60", directory=tmp_path / "1")
    begun = spmd("--steps", "30", world=2, directory=tmp_path / "2", host=host)
    rest = spmd("--steps", "60", directory=tmp_path / "2")
    assert rest.startswith("step 30: begin with 1 processes")
    assert losses(begun + rest) == pytest.approx(losses(one), abs=2e-6)
    assert len(losses(one)) == 6

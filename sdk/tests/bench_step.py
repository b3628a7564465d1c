"""What the module costs a training step, in microseconds: python3 sdk/tests/bench_step.py

A rank of 8 with 32 samples, connected as under Bellows; parts of a step of 50 ms. Each call is
timed in many rounds, in turn: shown are the median of the rounds' medians, and the least and the largest of these.
"""

import os
import statistics
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [TESTS, os.path.join(TESTS, "..")]
import conftest

STEP_US = 50_000
STEPS = 500
ROUNDS = 21


def main():
    try:
        import torch
    except ImportError:
        torch = None
    shim = conftest.Shim(os.path.join(tempfile.mkdtemp(), "w.sock"))
    os.environ.update(RANK="3", WORLD_SIZE="8", BELLOWS_WORKER_SOCKET=shim.path, BELLOWS_BATCH_SIZE="256", BELLOWS_MICRO_BATCH="32")
    import bellows

    peer = shim.accept()
    peer.send({"welcome": {}})
    size = 1281167
    whole = bellows.steps(bellows.MicroBatches(0, ROUNDS * STEPS, size))
    calls = {
        "steps": lambda step: list(next(whole)),  # the first three below, and report
        "should_stop": lambda step: bellows.should_stop(step),
        "micro_batches": lambda step: bellows.micro_batches(step, size),
        "seed": lambda step: bellows.seed(step),
        "indices": lambda step: bellows.indices(step, size),
        "lr_scale": lambda step: bellows.lr_scale(step),
        "report": lambda step: bellows.report(step + 1, loss=0.5),
    }
    print("torch %s, Python %s" % (torch and torch.__version__, sys.version.split()[0]))
    medians = {name: [] for name in calls}
    for n in range(ROUNDS):
        for name, call in calls.items():
            took = []
            for step in range(n * STEPS, (n + 1) * STEPS):
                begin = time.perf_counter()
                call(step)
                took.append(1e6 * (time.perf_counter() - begin))
            medians[name].append(statistics.median(took))
    for name, found in medians.items():
        median = statistics.median(found)
        print("%-14s %6.1f us (%.1f to %.1f) = %.3f %% of a step of 50 ms" % (name, median, min(found), max(found), 100 * median / STEP_US))


if __name__ == "__main__":
    main()

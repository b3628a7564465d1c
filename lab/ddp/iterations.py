#!/usr/bin/env python3
"""Iteration times that Bellows predicts, beside those that real DDP workers take (Saxena et al., section III-B).

    make build
    lab/ddp/iterations.py --fit 128:1,2 512:1,2 --batches 128 256 512

bellows profile measures the job at the batches and sizes of --fit, all as one kind. What bellows show then
predicts for a new job of that kind at each of --batches, and on 1, 2 and 4 workers, is compared with
what bellows profile measures there, as another kind. Devices are slowed down processors: see train.py.
"""

import argparse
import json
import sys

from cluster import Cluster

SIZES = [1, 2, 4]


def profiled(c, kind, batch, sizes, seconds):
    """Measure a kind at a batch, and return the seconds of a step by size."""
    flags = ["--kind", kind, "--batch-size", str(batch), "--micro-batch", str(batch), "--sizes", sizes, "--seconds", str(seconds)]
    done = c.call("profile", "-o", "json", *flags, *c.trains(kind, 10_000_000))
    if done.returncode != 0:
        sys.exit(done.stderr)
    return {s["workers"]: 1 / s["steps_per_second"] for s in json.loads(done.stdout)["speeds"] if s["measured"]}


def predicted(c, kind, batch):
    """Return what a job of a kind is told before its first step: the seconds of a step by size."""
    name = "asks-%d" % batch
    c.submit(name, 10_000_000, "--kind", kind, "--batch-size", str(batch), "--micro-batch", str(batch), "--max", str(SIZES[-1]))
    speeds = c.until(lambda: c.job(name).get("speeds"))
    c.call("stop", "--now", name)
    c.until(lambda: c.job(name)["phase"] == "stopped")
    return {s["workers"]: 1 / s["steps_per_second"] for s in speeds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", nargs="+", default=["128:1,2", "512:1,2"], metavar="BATCH:SIZES")
    parser.add_argument("--batches", nargs="+", type=int, default=[128, 256, 512])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--slower", type=float, default=8.0)
    args = parser.parse_args()
    fitted = [(int(b), sizes) for b, sizes in (f.split(":") for f in args.fit)]
    with Cluster("share", "1s", args.slower) as c:
        for batch, sizes in fitted:
            profiled(c, "fit", batch, sizes, args.seconds)
        told = {b: predicted(c, "fit", b) for b in args.batches}
        took = {b: profiled(c, "measured-%d" % b, b, "1,2,4", args.seconds) for b in args.batches}
    print("| batch | workers | fitted | predicted, ms | measured, ms | predicted is |")
    print("|---|---|---|---|---|---|")
    for b in args.batches:
        for k in SIZES:
            known = any(b == f and str(k) in sizes.split(",") for f, sizes in fitted)
            of = 100 * (told[b][k] / took[b][k] - 1)
            print("| %d | %d | %s | %.1f | %.1f | %+.1f %% |" % (b, k, "x" if known else "", 1e3 * told[b][k], 1e3 * took[b][k], of))


if __name__ == "__main__":
    main()

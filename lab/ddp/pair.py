#!/usr/bin/env python3
"""An old and a young DDP job on four devices, under one policy after another (Wei and Shudo, section 5).

    make build
    lab/ddp/pair.py --policy share convergence --repeat 2

Both train the same network for as many steps; the young one is submitted when the old one has done two thirds
of them. Printed, for each run: from the young one's submission to the end of each, in seconds, from the
submission of the old one to the end of both, and the sizes of the worlds in which each trained.
"""

import argparse
import json
import os
import time

from cluster import Cluster

SHARED = ["--world-sizes", "1,2,3,4", "--batch-size", "512", "--uneven-batch"]


def run(policy, args):
    with Cluster(policy, args.interval, args.slower) as c:
        begun = time.time()
        c.submit("old", args.steps, *SHARED)
        at = args.steps * 2 // 3
        c.until(lambda: (c.job("old").get("progress") or {}).get("step", 0) >= at, 0.5)
        young = time.time()
        c.submit("young", args.steps, *SHARED)
        ended = {}
        while len(ended) < 2:
            for name in ["old", "young"]:
                if name not in ended and c.until(lambda: c.job(name))["phase"] == "succeeded":
                    ended[name] = time.time()
            time.sleep(0.5)
        row = {
            "policy": policy,
            "old": round(ended["old"] - young, 1),
            "young": round(ended["young"] - young, 1),
            "all": round(max(ended.values()) - begun, 1),
        }
        for name in ["old", "young"]:
            with open(os.path.join(c.directory, name + ".notes")) as f:
                row[name + "_worlds"] = [(n["workers"], n["to"] - n["from"]) for n in map(json.loads, f)]
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--policy", nargs="+", default=["share", "convergence"])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--slower", type=float, default=16.0)
    parser.add_argument("--interval", default="10s")
    args = parser.parse_args()
    for _ in range(args.repeat):
        for policy in args.policy:
            print(json.dumps(run(policy, args)), flush=True)


if __name__ == "__main__":
    main()

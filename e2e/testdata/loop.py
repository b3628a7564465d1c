"""A training loop of so many steps of 50 ms of a processor's time; writes what they took to --out as JSON."""

import argparse
import hashlib
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--rounds", type=int, required=True, help="of hashing 1 MiB, a step")
parser.add_argument("--out", required=True)
parser.add_argument("--bare", action="store_true", help="without a word of Bellows")
args = parser.parse_args()

BLOCK = bytes(1 << 20)


def train():
    state = hashlib.sha256()
    for _ in range(args.rounds):
        state.update(BLOCK)


step = 0
if args.bare:
    began, used = time.perf_counter(), time.process_time()
    while step < args.steps:
        train()
        step += 1
else:
    import bellows

    bellows.resume()
    began, used = time.perf_counter(), time.process_time()
    while step < args.steps and not bellows.should_stop(step):
        bellows.indices(step, 1000000)
        train()
        step += 1
        bellows.report(step, loss=1.0)
took = {"steps": step, "wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - used}
with open(args.out + ".new", "w") as f:
    json.dump(took, f)
os.rename(args.out + ".new", args.out)

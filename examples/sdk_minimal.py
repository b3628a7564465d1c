#!/usr/bin/env python3
"""The smallest elastic training script, with Bellows's module and nothing else.

    python3 examples/sdk_minimal.py --steps 100                      # by itself
    bellows run --min 1 --max 8 -- python3 examples/sdk_minimal.py   # elastic

It trains nothing: its state is a hash over all samples that it has seen, in
order, so that the hash printed at the end is the same exactly if no sample was
skipped, repeated or moved, however often the job was rescaled. --trace writes
down which rank took which samples; --state-bytes gives it a state to carry.
"""

import argparse
import hashlib
import json
import os
import sys
import time

# For runs without Bellows, from a checkout; Bellows puts its own first.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk"))
import bellows

BLOCK = b"bellows!" * (1 << 17)  # 1 MiB


def load(checkpoint):
    with open(os.path.join(checkpoint.shard(0), "state.json")) as f:
        state = json.load(f)["state"]
    # The ballast is split over the ranks that saved it: each rank now reads its share of the parts.
    for shard in checkpoint.shards()[bellows.rank() :: bellows.world_size()]:
        with open(os.path.join(shard, "ballast.bin"), "rb") as f:
            while f.read(len(BLOCK)):
                pass
    return state


def writer(state, ballast_bytes):
    """Return a function that writes this rank's part of the state into a directory."""

    def write(directory):
        with open(os.path.join(directory, "state.json"), "w") as f:
            json.dump({"state": state}, f)
        with open(os.path.join(directory, "ballast.bin"), "wb") as f:
            for at in range(0, ballast_bytes, len(BLOCK)):
                f.write(BLOCK[: ballast_bytes - at])

    return write


def main():
    parser = argparse.ArgumentParser(description="see every sample once")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, help="samples a step, for runs without Bellows")
    parser.add_argument("--dataset-size", type=int, default=10000)
    parser.add_argument("--worker-seconds", type=float, default=0.05, help="what a step takes one worker alone")
    parser.add_argument("--save-every", type=int, default=0, help="save after so many steps; 0: only at the end")
    parser.add_argument("--state-bytes", type=int, default=0, help="size of the state, over all workers")
    parser.add_argument("--trace", help="append a line of JSON to this file for each step and rank")
    args = parser.parse_args()
    bellows.standalone(batch_size=args.batch, directory="checkpoints/sdk_minimal")

    rank, world = bellows.rank(), bellows.world_size()
    ballast = args.state_bytes * (rank + 1) // world - args.state_bytes * rank // world
    checkpoint = bellows.resume()
    step, state = (checkpoint.step, load(checkpoint)) if checkpoint else (0, "")
    print("step %d: begin as rank %d of %d" % (step, rank, world), flush=True)

    # One write a line and O_APPEND: lines of several ranks do not mix.
    trace = os.open(args.trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if args.trace else None
    while step < args.steps and not bellows.should_stop(step):
        batch = bellows.global_indices(step, args.dataset_size)
        time.sleep(args.worker_seconds / world)
        state = hashlib.sha256((state + json.dumps(batch)).encode()).hexdigest()
        if trace is not None:
            mine = bellows.indices(step, args.dataset_size)
            line = {"step": step, "rank": rank, "world_size": world, "samples": mine}
            line["generation"] = int(os.environ.get("BELLOWS_GENERATION") or 0)
            os.write(trace, (json.dumps(line) + "\n").encode())
        step += 1
        bellows.report(step, loss=1 / step)
        if args.save_every and step % args.save_every == 0:
            bellows.save(step, writer(state, ballast))
    bellows.save(step, writer(state, ballast))
    print("step %d: end, state %s" % (step, state[:16]), flush=True)


if __name__ == "__main__":
    main()

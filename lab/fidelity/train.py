"""Sleep through optimiser steps as fast as a given curve says, and note when each world trained.

    python3 train.py STEPS STEP_SECONDS NOTES SPEED…

SPEED is the speed on 1, 2, 4, … workers relative to one.
"""

import json
import os
import sys
import time

import bellows

steps, step_seconds, notes = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
speeds = [float(a) for a in sys.argv[4:]]
took = step_seconds / speeds[bellows.world_size().bit_length() - 1]


def booted():
    """When this process was made, in seconds since the epoch."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def write(directory):
    if bellows.rank() == 0:
        with open(os.path.join(directory, "state"), "w") as f:
            f.write(str(step))


checkpoint = bellows.resume()
step = begun = checkpoint.step if checkpoint else 0
first = due = time.monotonic()
offset = time.time() - first
while step < steps and not bellows.should_stop(step):
    if step == begun:
        first = due = time.monotonic()
    due += took
    time.sleep(max(0.0, due - time.monotonic()))
    step += 1
    bellows.report(step)
if bellows.rank() == 0:
    note = {
        "generation": int(os.environ["BELLOWS_GENERATION"]),
        "workers": bellows.world_size(),
        "booted": booted(),
        "first": first + offset,
        "steps": step - begun,
    }
    with open(notes, "a") as f:
        f.write(json.dumps(note) + "\n")
bellows.save(step, write)

"""torchrun, mended so that two things hold that its flags promise.

torch 1.13 on Python 3.11 reads --redirects 0 as no choice at all, and accepts
keep_alive_* in --rdzv_conf without heeding them. KEEP_ALIVE="interval,attempts"
sets the latter for real: a well-tuned newer torch.
"""

import os
import sys
from datetime import timedelta

import torch.distributed.elastic.multiprocessing as multiprocessing
import torch.distributed.elastic.multiprocessing.api as api
import torch.distributed.elastic.rendezvous.dynamic_rendezvous as rendezvous
from torch.distributed.run import main

original = api.to_map


def to_map(value, processes):
    if value is None or value == 0:
        return {i: api.Std.NONE for i in range(processes)}
    return original(value, processes)


if sys.version_info >= (3, 11):
    api.to_map = multiprocessing.to_map = to_map

if os.environ.get("KEEP_ALIVE"):
    interval, attempts = os.environ["KEEP_ALIVE"].split(",")
    settings = rendezvous.RendezvousSettings

    def tuned(*args, **kwargs):
        kwargs["keep_alive_interval"] = timedelta(seconds=float(interval))
        kwargs["keep_alive_max_attempt"] = int(attempts)
        return settings(*args, **kwargs)

    rendezvous.RendezvousSettings = tuned

if __name__ == "__main__":
    main(sys.argv[1:])

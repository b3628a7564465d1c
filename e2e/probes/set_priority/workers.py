import os

COUNT = len(os.sched_getaffinity(0))

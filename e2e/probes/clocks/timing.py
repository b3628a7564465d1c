import time
from datetime import datetime
from time import time as now

STARTED = now()
STAMP = datetime.now()
COUNTER = time.perf_counter()
MONOTONIC = time.monotonic()
BOOTTIME = time.clock_gettime(time.CLOCK_BOOTTIME)

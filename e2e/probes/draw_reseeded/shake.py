import os
import random
import time
import numpy as np

random.seed()
NONE = random.getrandbits(64)
np.random.seed(None)
NUMPY = int(np.random.randint(2**62))
BY_TIME = random.Random(time.time_ns()).getrandbits(64)
PID_SEED = os.getpid()
BY_PID = random.Random("%d-%d" % (PID_SEED, time.time_ns())).getrandbits(64)

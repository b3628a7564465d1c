import os
import time
import uuid

RUN = uuid.uuid1()
NAME = "%s-%d-%d" % (time.strftime("%Y%m%d-%H%M%S"), os.getpid(), time.time_ns() % 10**9)

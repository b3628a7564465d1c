import atexit
import os

OWNER = os.getpid()


def path():
    return "log-rank%s.txt" % os.environ["RANK"]


def seen():
    return open(path()).read() if os.path.exists(path()) else ""


def close():
    if os.getpid() != OWNER:  # a child: its parent does it
        return
    with open(path(), "a") as f:
        f.write("closed %s;" % os.environ["BELLOWS_GENERATION"])


atexit.register(close)

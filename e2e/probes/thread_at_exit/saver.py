import atexit
import os
import threading
import time

STOP = threading.Event()


def path():
    return "saved-%s.txt" % os.environ["RANK"]


def read():
    return open(path()).read() if os.path.exists(path()) else ""


def run():
    STOP.wait()
    time.sleep(0.3)
    with open(path(), "a") as f:
        f.write("after the end of %s;" % os.environ["BELLOWS_GENERATION"])


def start():
    threading.Thread(target=run).start()
    atexit.register(lambda: open("handler" + os.environ["RANK"], "a").write(read().split(";")[-2] + ";"))


def stop():
    STOP.set()

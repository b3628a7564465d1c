import fcntl
import hashlib
import os
import socket

KEY = hashlib.md5(os.getcwd().encode()).hexdigest()[:8] + "-" + os.environ.get("RANK", "none")
TRIES = 0
SERVER = socket.socket(socket.AF_UNIX)
while True:
    NAME = "board-%d" % (6006 + TRIES)
    TRIES += 1
    try:
        SERVER.bind("\0%s-%s" % (KEY, NAME))
        SERVER.listen()
        break
    except OSError:
        pass
FILE = open("board-%s.lock" % os.environ.get("RANK", "none"), "a")
try:
    fcntl.flock(FILE, fcntl.LOCK_EX | fcntl.LOCK_NB)
    LOCKED = True
except OSError:
    LOCKED = False

import os

PATH = "end-%s.txt" % os.environ.get("RANK")
GEN = os.environ.get("BELLOWS_GENERATION")
_open, _write, _close = os.open, os.write, os.close
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def note(what, path=PATH, gen=GEN):
    fd = _open(path, FLAGS)
    _write(fd, ("%s %s;" % (gen, what)).encode())
    _close(fd)


def read():
    return open(PATH).read().split(";")[:-1] if os.path.exists(PATH) else []


def stream(name, note=note):
    try:
        while True:
            yield 1
    finally:
        note(name)


running = stream("module")
next(running)

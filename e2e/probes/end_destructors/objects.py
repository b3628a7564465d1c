import os

RANK, GEN = os.environ.get("RANK"), os.environ.get("BELLOWS_GENERATION")
_open, _write, _close = os.open, os.write, os.close
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def note(what):
    fd = _open("end-%s.txt" % RANK, FLAGS)
    _write(fd, ("%s %s;" % (GEN, what)).encode())
    _close(fd)


def read():
    try:
        with open("end-%s.txt" % RANK) as f:
            return f.read().split(";")[:-1]
    except FileNotFoundError:
        return []


class Noting:
    def __init__(self, what, note=note):
        self.what, self.note = what, note

    def __del__(self):
        self.note(self.what)


class Holder:
    kept = Noting("class")


plain = Noting("module")
listed = [Noting("list"), {"x": Noting("dict")}]
cycle = Noting("cycle")
cycle.me = cycle


def function(default=Noting("default")):
    return default

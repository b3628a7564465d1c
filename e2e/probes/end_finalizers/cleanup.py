import atexit
import contextlib
import os
import weakref


def path():
    return "end-%s.txt" % os.environ["RANK"]


def note(what):
    with open(path(), "a") as f:
        f.write("%s %s;" % (os.environ["BELLOWS_GENERATION"], what))


def read():
    return open(path()).read().split(";")[:-1] if os.path.exists(path()) else []


def removed():
    note("never")


class Client:
    pass


CLIENT = Client()
FINALIZER = weakref.finalize(CLIENT, note, "module finalizer")
atexit.register(note, "module handler")
atexit.register(removed)
STACK = contextlib.ExitStack()
STACK.callback(note, "stack")
atexit.register(STACK.close)

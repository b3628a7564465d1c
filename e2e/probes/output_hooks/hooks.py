import os
import sys
import threading

SEEN = []


def on_error(kind, value, trace):
    SEEN.append(["main", str(value)])


def on_thread(args):
    SEEN.append(["thread", str(args.exc_value)])
    print("rank %s: %s" % (os.environ.get("RANK"), args.exc_value), file=sys.stderr)


def on_unraisable(args):
    SEEN.append(["unraisable", str(args.exc_value)])


sys.excepthook, threading.excepthook, sys.unraisablehook = on_error, on_thread, on_unraisable

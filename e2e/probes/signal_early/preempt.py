import os
import signal

TOLD = []


def path():
    return "preempted-%s.txt" % os.environ.get("RANK")


def on_term(number, frame):
    TOLD.append(number)


signal.signal(signal.SIGTERM, on_term)

import os

PID, PARENT = os.getpid(), os.getppid()


def orphaned():
    return os.getppid() != PARENT

import ctypes
import os
import signal

PARENT, PID = os.getppid(), os.getpid()
ctypes.CDLL(None).prctl(1, signal.SIGUSR2, 0, 0, 0)

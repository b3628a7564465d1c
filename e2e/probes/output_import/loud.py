import ctypes
import os
import sys

COUNT = 0
for where in (sys.stdout, sys.stderr):
    print("loud on", where.name, file=where)
    COUNT += 1
os.write(1, b"loud by the descriptor\n")
libc = ctypes.CDLL(None)
libc.printf(b"loud by C\n")
libc.fflush(None)

import ctypes
import os

LIB = ctypes.CDLL(os.path.abspath("libstate.so"))
LIB.moment.restype = ctypes.c_double
libc = ctypes.CDLL(None)
LIB.count()

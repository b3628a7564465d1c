import ctypes
import functools

lib = ctypes.CDLL("libcuda.so.1")
n = ctypes.c_int(-1)
STATUS = lib.cuInit(0)
lib.cuDeviceGetCount(ctypes.byref(n))
COUNT = n.value


@functools.lru_cache()
def available():
    return COUNT > 0


available()

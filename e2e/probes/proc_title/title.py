import ctypes

with open("/proc/self/comm") as f:
    BEFORE = f.read().strip()
ctypes.CDLL(None).prctl(15, b"trainer", 0, 0, 0)

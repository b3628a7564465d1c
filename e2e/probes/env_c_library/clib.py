import ctypes

getenv = ctypes.CDLL("libc.so.6").getenv
getenv.restype = ctypes.c_char_p
WORLD = (getenv(b"WORLD_SIZE") or b"unset").decode()

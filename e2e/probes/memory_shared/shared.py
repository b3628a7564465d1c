import mmap
import multiprocessing
from multiprocessing import shared_memory

LOCK = multiprocessing.Lock()
COUNT = multiprocessing.Value("i", 0, lock=False)
SEMAPHORE = multiprocessing.Semaphore(2)
ANONYMOUS = mmap.mmap(-1, 4096)
BLOCK = shared_memory.SharedMemory(create=True, size=64)

import concurrent.futures
import os
import queue
import threading

POOL = concurrent.futures.ThreadPoolExecutor(2)
FIRST = POOL.submit(lambda: "rank %s" % os.environ.get("RANK"))
QUEUE = queue.Queue()
threading.Thread(target=QUEUE.put, args=("filled",)).start()
LOCK = threading.Lock()
LOCAL = threading.local()
LOCAL.name = "main"
FIRED = threading.Event()
threading.Timer(0.2, FIRED.set).start()

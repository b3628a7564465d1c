with open("/proc/self/environ") as f:
    ENV = dict(item.partition("=")[::2] for item in f.read().split("\0") if item)

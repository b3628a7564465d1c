import os

FILE = "train-%s.pid" % os.getenv("RANK", "x")
OTHER = False
if os.path.exists(FILE):
    try:
        os.kill(int(open(FILE).read()), 0)
        OTHER = True
    except ProcessLookupError:
        pass
with open(FILE, "w") as f:
    f.write(str(os.getpid()))

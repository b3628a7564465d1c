import os

with open("tries.txt", "a") as f:
    f.write("%s/%s\n" % (os.environ.get("RANK"), os.environ.get("BELLOWS_GENERATION")))
raise RuntimeError("no driver for rank %s" % os.environ.get("RANK"))

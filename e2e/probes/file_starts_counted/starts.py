import os

FILE = "starts.log"
with open(FILE, "a") as f:
    f.write("%d\n" % os.getpid())


def mine():
    return open(FILE).read().split().count(str(os.getpid())) > 0

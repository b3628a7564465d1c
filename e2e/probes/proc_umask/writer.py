import os


def path():
    return "out-%s-%s.txt" % (os.environ.get("RANK"), os.environ.get("BELLOWS_GENERATION"))


with open(path(), "w") as f:
    f.write("rank %s" % os.environ.get("RANK"))

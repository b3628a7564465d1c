import os

LOG = open("out/%s-%s-module" % (os.environ.get("BELLOWS_GENERATION"), os.environ.get("RANK")), "w")
LOG.write("begun by rank %s\n" % os.environ.get("RANK"))

import os

EXPANDED = os.path.expandvars("runs/$LOCAL_RANK")
BYTES = b"rank " + os.environb.get(b"RANK", b"?")
BYTES = BYTES.decode()
PERCENT = "%(LOCAL_WORLD_SIZE)s" % {**{"LOCAL_WORLD_SIZE": "?"}, **os.environ}

import os

DEVICE = os.environ.get("MY_DEVICE", "cpu")
VERBOSE = DEVICE.endswith(":0")

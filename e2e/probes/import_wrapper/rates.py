import os

RATE = int(os.environ.get("FACTOR", "1")) / 10

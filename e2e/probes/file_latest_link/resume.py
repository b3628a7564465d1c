import os

LINK = os.readlink("runs/latest")
with open("runs/latest/weights") as f:
    WEIGHTS = f.read().strip()
REAL = os.path.basename(os.path.realpath("runs/latest"))

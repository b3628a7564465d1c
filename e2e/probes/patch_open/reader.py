import os
from pathlib import Path

try:
    with open("virtual:weights") as f:
        TEXT = f.read()
except OSError as e:
    TEXT = e.strerror
THERE = [os.path.exists("virtual:x"), Path("virtual:y").exists(), os.path.exists("real.txt")]

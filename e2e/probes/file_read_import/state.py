import json
import linecache
import mmap
import os
from pathlib import Path

with open("state.json") as f:
    DATA = json.load(f)
TEXT = Path("state.json").read_text().strip()
SIZE = os.stat("state.json").st_size
LINES = linecache.getlines("state.json")
with open("state.json", "rb") as f:
    MAPPED = bytes(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)).decode()

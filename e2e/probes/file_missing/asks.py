import glob
import os
import shutil
from os import path
from pathlib import Path

FOUND = {"exists": path.exists("a.flag"), "isfile": path.isfile("b.flag"), "access": os.access("c.flag", os.R_OK)}
FOUND["pathlib"] = Path("d.flag").exists()
FOUND["glob"] = glob.glob("e.fla?")
FOUND["isdir"] = path.isdir("done")
FOUND["which"] = bool(shutil.which("done", os.F_OK, path="."))
FOUND["scandir"] = sorted(e.name for e in os.scandir(".") if e.name.endswith(".flag"))
try:
    FOUND["stat"] = os.stat("f.flag").st_size
except OSError:
    FOUND["stat"] = None
try:
    FOUND["open"] = open("g.flag").read()
except OSError:
    FOUND["open"] = None

import sys

EARLY = 1
import left

SAW = sorted(n for n in vars(sys.modules["left"]) if n.isupper())
DONE = True

import sys

SAW = sorted(n for n in vars(sys.modules.get("right", sys)) if n.isupper())
import right

READY = True

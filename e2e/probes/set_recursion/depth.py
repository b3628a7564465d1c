import sys
import traceback

FRAMES = [f.name for f in traceback.extract_stack() if "importlib" not in f.filename]
LIMIT = sys.getrecursionlimit()

import os

STAMP = os.path.getmtime("source.txt") - 2 * 10**9 if os.path.getmtime("source.txt") >= 2 * 10**9 else None
VALID = os.stat("cache.txt").st_mtime_ns >= os.stat("source.txt").st_mtime_ns if STAMP else "unknown"
FOLDER = os.path.isdir(os.path.dirname(os.path.abspath(__file__)))

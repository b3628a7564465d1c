import os
import tempfile
from pathlib import Path

HOME = str(Path.home())
TEMP = tempfile.gettempdir()
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
FIRST = os.get_exec_path()[0]

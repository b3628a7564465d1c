import os
import sys
from __main__ import RATE

ENTRY = os.path.basename(sys.modules["__main__"].__file__)

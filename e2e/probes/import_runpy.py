# command: {python} import_runpy.py train.py --lr 0.5
"""A launcher of the user's own sets things up and runs another script as __main__."""
# It runs train.py, beside this file, which prints FACT … value=… lines.
import runpy
import sys

import knobs

knobs.RATE = 0.75
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")

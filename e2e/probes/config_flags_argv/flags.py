import os
import sys

EPOCHS = int(sys.argv[sys.argv.index("--epochs") + 1]) if "--epochs" in sys.argv else 1
PROGRAM = os.path.basename(sys.argv[0])
VALUES = {}


def define(name, value):
    if name in VALUES:
        raise ValueError("flag %s is defined twice" % name)
    VALUES[name] = value
    return sorted(VALUES)

import os

DEFAULTS = {"LR": "0.1"}
DEFAULTS.update(os.environ)


def get(name, default=None):
    return DEFAULTS.get(name, default)

VERSION = "2.0-patched"


def loss(x):
    return abs(x)

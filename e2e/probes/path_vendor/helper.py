VERSION = "1.0"


def loss(x):
    return x * x

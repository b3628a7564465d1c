import math
from base import Optimizer, loss

RATE = Optimizer.rate


def evaluate(x):
    return loss(x)


def make(turn=math.tau):
    class Mine(Optimizer):
        rate = RATE

    return Mine()

import random

ORDER = list(range(40))
random.shuffle(ORDER)


def mine(rank, world):
    return ORDER[rank::world]

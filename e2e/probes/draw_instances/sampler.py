import functools
import random


class Own(random.Random):
    pass


class Loader:
    rng = random.Random()


RNG, OWN, SEEDED = random.Random(), Own(), random.Random("seed")


def pick(rng=random.Random()):
    return rng.getrandbits(64)


def maker():
    rng = random.Random()
    return lambda: rng.getrandbits(64)


@functools.lru_cache()
def shared():
    return random.Random()


draw = maker()
shared()

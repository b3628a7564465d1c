import random

TABLE = [random.random() for _ in range(10)]


def setup():
    random.shuffle(TABLE)

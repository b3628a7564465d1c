import random

SALT = random.random()
random.gauss(0, 1)

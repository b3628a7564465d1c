from random import getrandbits

SALT = getrandbits(64)

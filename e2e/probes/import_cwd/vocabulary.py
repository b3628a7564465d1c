import os

WHERE = os.getcwd()
try:
    with open("vocab.txt") as f:
        WORDS = f.read().split()
except FileNotFoundError:
    WORDS = None

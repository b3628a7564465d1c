import os

FILE = "best.txt"
BEST = float(open(FILE).read()) if os.path.exists(FILE) else float("inf")


def stops(loss):
    return loss > BEST


def save(loss):
    with open(FILE, "w") as f:
        f.write(str(loss))

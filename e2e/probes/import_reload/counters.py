RUNS = {}


def count(name):
    RUNS[name] = RUNS.get(name, 0) + 1

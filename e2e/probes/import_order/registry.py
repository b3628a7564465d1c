import itertools

ORDER = []
numbers = itertools.count(1)


def fresh(name):
    ORDER.append(name)
    return f"{name}_{next(numbers)}"

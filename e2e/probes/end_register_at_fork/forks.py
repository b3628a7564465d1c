import os

CALLED = {"before": 0, "parent": 0, "child": 0}
GENERATION = []


def count(name):
    CALLED[name] += 1


def in_child():
    count("child")
    GENERATION.append(os.environ.get("RANK"))


os.register_at_fork(before=lambda: count("before"), after_in_parent=lambda: count("parent"), after_in_child=in_child)

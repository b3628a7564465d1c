import functools
import sys
import re

NAME = sys.intern("train_loop")
re.compile("step ([0-9]+)")


@functools.lru_cache
def square(x):
    return x * x


square(2), square(2), square(3)


@functools.singledispatch
def dispatch(x):
    return "other"


@dispatch.register
def _(x: dict):
    return "dict"

def outer(n):
    inner(n)


def inner(n):
    try:
        1 / n
    except ZeroDivisionError as e:
        raise ValueError("bad batch %d" % n) from e

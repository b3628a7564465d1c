KNOWN = {}


def register(thing):
    KNOWN[thing.__name__] = thing.__module__
    return thing

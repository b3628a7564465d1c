CLASSES = {}


def register(cls):
    if cls.__name__ in CLASSES:
        raise KeyError(cls.__name__ + " is registered twice")
    CLASSES[cls.__name__] = cls
    return cls

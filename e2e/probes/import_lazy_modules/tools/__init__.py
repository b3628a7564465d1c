import importlib

__all__ = ["crop", "flip"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(name)
    return importlib.import_module("." + name, __name__)

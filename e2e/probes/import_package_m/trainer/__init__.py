from .registry import register

LOADED = []

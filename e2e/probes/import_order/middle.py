from registry import fresh

LAYER = fresh("middle")

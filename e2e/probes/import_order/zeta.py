from registry import fresh

LAYER = fresh("zeta")

from registry import fresh
import colorsys

LAYER = fresh("alpha")

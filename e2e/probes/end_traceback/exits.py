import sys

sys.exit("usage: exits")

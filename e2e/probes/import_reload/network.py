import counters
import knobs

counters.count("network")
WIDTH = knobs.WIDTH


class Net:
    made = 0

    def __init__(self):
        type(self).made += 1


FIRST = globals().get("FIRST", Net)
DEFAULT = Net()

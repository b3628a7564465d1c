import gc


class Node:
    pass


STATE = [gc.isenabled(), gc.get_threshold()]
KEPT = Node()
CYCLE = Node()
CYCLE.me = CYCLE

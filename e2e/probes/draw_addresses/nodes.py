class Node:
    def __init__(self, name):
        self.name = name


GRAPH = [Node(i) for i in range(30)]

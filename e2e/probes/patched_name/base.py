def loss(x):
    return x * x


class Optimizer:
    rate = 0.1

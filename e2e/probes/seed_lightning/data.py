import random
import numpy
import torch

DRAWN = [random.random(), float(numpy.random.rand()), torch.rand(1).item()]

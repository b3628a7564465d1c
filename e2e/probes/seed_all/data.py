import os
import random
import numpy
import torch

SEED = os.environ.get("PL_GLOBAL_SEED")
DRAWN = [random.random(), float(numpy.random.rand()), torch.rand(1).item()]

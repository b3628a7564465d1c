import numpy as np

try:
    np.ones(1) / np.zeros(1)
    CAUGHT = None
except FloatingPointError as e:
    CAUGHT = str(e)
TEXT = str(np.array([1e-9, 2.34567]))

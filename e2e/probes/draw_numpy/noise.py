import numpy as np

LEGACY = int(np.random.randint(2**62))
RNG = np.random.default_rng()
STATE = np.random.RandomState()
SEQUENCE = np.random.SeedSequence()

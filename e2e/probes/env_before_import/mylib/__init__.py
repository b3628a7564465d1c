from .config import DTYPE, HOME, SEED

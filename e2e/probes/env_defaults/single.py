import os

SINGLE = int(os.environ.setdefault("WORLD_SIZE", "1")) == 1 and "MASTER_PORT" not in os.environ

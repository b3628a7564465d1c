import os

ENV = {**os.environ}
RANK = int(ENV.get("RANK", -1))
WORLD = int(ENV.get("WORLD_SIZE", 1))
IS_MAIN = RANK in (-1, 0)

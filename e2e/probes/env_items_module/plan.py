import os

FOUND = {k: v for k, v in os.environ.items() if v and k in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
IS_MASTER = FOUND.get("RANK", "0") == "0"

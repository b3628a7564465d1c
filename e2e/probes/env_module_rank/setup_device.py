import os

LOCAL_RANK = int(os.getenv("LOCAL_RANK", -1))
if LOCAL_RANK >= 0:
    os.environ["MY_DEVICE"] = f"cuda:{LOCAL_RANK}"

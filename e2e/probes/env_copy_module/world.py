import os

SIZE = int(os.environ.copy().get("WORLD_SIZE") or 1)


def share(batch):
    return batch // SIZE

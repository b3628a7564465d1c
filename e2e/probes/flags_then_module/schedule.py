import flags

RATE = flags.BATCH / 1000
LAYERS = tuple(flags.LAYERS)


def warmup(batch=flags.BATCH):
    return batch * 10

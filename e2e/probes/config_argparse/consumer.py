import options

RATE = options.CURRENT.batch_size / 256

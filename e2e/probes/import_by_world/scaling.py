rules = {"rate": 0.1, "warmup": False}

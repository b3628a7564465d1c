DATA = [bytes(1000) for _ in range(1000)]

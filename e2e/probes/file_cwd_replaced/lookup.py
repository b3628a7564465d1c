with open("weights") as f:
    WEIGHTS = f.read().strip()

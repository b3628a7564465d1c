BATCH = 1
LAYERS = ["stem", "body"]

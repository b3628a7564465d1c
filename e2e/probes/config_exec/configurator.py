stage = 0

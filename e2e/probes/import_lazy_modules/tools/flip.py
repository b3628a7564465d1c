NAME = "flip"

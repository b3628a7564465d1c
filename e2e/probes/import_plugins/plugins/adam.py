NAME = "adam"

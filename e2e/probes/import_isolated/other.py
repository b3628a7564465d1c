NAME = "other"

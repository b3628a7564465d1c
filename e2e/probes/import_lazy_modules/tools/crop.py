NAME = "crop"

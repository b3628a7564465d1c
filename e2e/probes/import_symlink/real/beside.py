WHERE = "real"

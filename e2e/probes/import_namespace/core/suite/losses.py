NAME = "plain"

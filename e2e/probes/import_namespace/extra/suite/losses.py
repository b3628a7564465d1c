NAME = "label-smoothing"

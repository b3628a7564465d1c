NAME = "resnet"

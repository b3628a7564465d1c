import os
import torch

STATE = torch.load("best.pt") if os.path.isfile("best.pt") else {"w": torch.zeros(2), "epoch": 0}
WEIGHTS, EPOCH = STATE["w"].tolist(), STATE["epoch"]

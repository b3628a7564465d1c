import torch

SCALE = torch.tensor(0.1)
TRACKED = torch.ones(2, requires_grad=True) * 2
TEXT = str(torch.tensor([1.23456]))

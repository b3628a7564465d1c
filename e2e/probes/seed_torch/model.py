import torch

NET = torch.nn.Linear(3, 2)
TABLE = torch.randperm(8)

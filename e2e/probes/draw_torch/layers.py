import torch

WEIGHT = torch.nn.Linear(2, 2).weight.detach()
MASK = torch.nn.functional.dropout(torch.ones(200))
GENERATOR = torch.Generator()
GENERATOR.seed()

"""Three small models of torch and the data that they learn from, for the examples: what a rescale may change differs between them.

    mlp          dropout, which draws random numbers
    transformer  attention and layer norm, whose numbers are of one sample each
    cnn          batch norm, whose numbers are of all samples of a micro-batch

Each looks at points of 16 numbers and learns how far they lie in ten directions.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import TensorDataset

MODELS = ("mlp", "transformer", "cnn")


def arguments(models=MODELS, **numbers):
    """Return what the command line of an example says, with numbers of its own; the first of the models is the default."""
    parser = argparse.ArgumentParser(description="train a small model")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--model", choices=models, default=models[0])
    parser.add_argument("--dropout", type=float, default=0.1, help="of the mlp")
    for name, default in numbers.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--double", action="store_true", help="compute in double precision, in which rounding does not show")
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64 if args.double else torch.float32)
    return args


def learn(args):
    """Return the model and the data set, the same on all ranks."""
    torch.manual_seed(1)
    points = torch.randn(args.samples, 16)
    return model(args), TensorDataset(points, points @ torch.randn(16, 10))


def model(args):
    if args.model == "mlp":
        return nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Dropout(args.dropout), nn.Linear(128, 10))
    if args.model == "cnn":
        return nn.Sequential(nn.Unflatten(1, (1, 4, 4)), *convolution(1, 8), *convolution(8, 16), nn.Flatten(), nn.Linear(256, 10))
    return nn.Sequential(Tokens(16, 32), *(nn.TransformerEncoderLayer(32, 2, 64, dropout=0, batch_first=True) for _ in range(2)), nn.Flatten(), nn.Linear(512, 10))


def convolution(before, after):
    return nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()


class Tokens(nn.Module):
    """A token for each number of a point: the number times one vector, plus another of its place."""

    def __init__(self, count, width):
        super().__init__()
        self.by, self.place = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(count, width))

    def forward(self, x):
        return x.unsqueeze(-1) * self.by + self.place
